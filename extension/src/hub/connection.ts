/** The Socket.IO connection to the hub: registers the window, answers health checks, reconnects. */
import { isDeepStrictEqual } from "node:util";
import { io, type Socket } from "socket.io-client";
import type { Disposable } from "../common/disposables";
import { within } from "../common/deadline";
import { Emitter } from "../common/emitter";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import type { SentObservation } from "../protocol";
import type { MergeBegan } from "../review/merges";
import {
  HUB_NAMESPACE,
  HUB_PROTOCOL,
  type ApprovalAnswered,
  type ApprovalRequested,
  type FromHub,
  type Hello,
  type ProgressMessage,
  type ReviewAnswer,
  type ReviewHunks,
  type ReviewList,
  type ReviewReply,
  type ReviewTarget,
  type ToHub,
  type WindowDescription,
  type WindowIdentity,
} from "./messages";

const REGISTER_MS = 30_000;
/** Milliseconds the editor has to answer before this host registers the window. */
const PROBE_MS = 20_000;
const DEFAULT_MESSAGE_BYTES = 1 << 20;

export type ConnectionState =
  | { is: "connecting"; hub: string; problem?: string }
  | { is: "connected"; hub: string }
  | { is: "refused"; hub: string; problem: string }
  | { is: "closed" };

export interface HubConnectionSettings {
  hub: string;
  token: string;
  identity: WindowIdentity;
  describe: () => WindowDescription;
  /** A round trip through the editor. Only the fact that the editor answers matters. */
  probe: () => Promise<void>;
  /** The review of agents' changes, which the hub's page shows too. */
  review?: SharedReview;
  retry?: { firstMs: number; mostMs: number };
}

/** Receives the begin and the end of merges of forks into the workspace. */
export interface MergeReceiver {
  began(merge: MergeBegan): Promise<void>;
  ended(id: string): void;
  /** The connection was lost. */
  lost(): void;
}

/** The pending changes of agents as the hub sees them. Fails with a `Failure`. */
export interface SharedReview {
  list(): ReviewList;
  show(file: ReviewTarget): ReviewHunks;
  answer(answer: ReviewAnswer): Promise<{ done: number }>;
}

/** Handles the messages of the hub. */
export interface HubReceiver {
  action(message: unknown): void;
  cancel(id: string): Promise<boolean>;
  /** The senders of these actions have received the observations. */
  received(ids: string[]): void;
  approval(answered: ApprovalAnswered): void;
  /** The senders disconnected: cancel those of their actions that are not yet allowed. */
  left(ids: readonly string[]): void;
  /** Another extension host took over this window: stop everything here. */
  superseded(): void;
  /** Called after each registration, also after a reconnect: send unconfirmed observations. */
  ready(): void;
}

/**
 * Stays connected until disposed. Retries an unreachable hub with exponential backoff. Does not
 * retry a hub that refuses the window because of its protocol version, its token or a window id
 * that belongs to another window: only a person can fix that.
 */
export class HubConnection implements Disposable {
  readonly onState: Emitter<ConnectionState>;
  private current: ConnectionState;
  private readonly socket: Socket<FromHub, ToHub>;
  private maxMessageBytes = DEFAULT_MESSAGE_BYTES;
  private isRegistered = false;
  /** The description in the latest registration. */
  private described: WindowDescription | undefined;

  constructor(
    private readonly settings: HubConnectionSettings,
    private readonly receiver: HubReceiver,
    private readonly merges: MergeReceiver,
    private readonly log: Log,
  ) {
    this.onState = new Emitter((error) => log.error("a listener failed", error));
    this.current = { is: "connecting", hub: settings.hub };
    this.socket = io(new URL(HUB_NAMESPACE, settings.hub).href, {
      transports: ["websocket"],
      extraHeaders: { Authorization: `Bearer ${settings.token}` },
      auth: {
        protocol: HUB_PROTOCOL,
        client: `bascule-vscode/${settings.describe().extension_version}`,
      },
      reconnectionDelay: settings.retry?.firstMs ?? 500,
      reconnectionDelayMax: settings.retry?.mostMs ?? 10_000,
      forceNew: true,
      autoConnect: false,
    });
    this.listen();
    this.socket.connect();
  }

  get state(): ConnectionState {
    return this.current;
  }

  get isReady(): boolean {
    return this.isRegistered && this.socket.connected;
  }

  /** The first state that is not `connecting`. */
  settled(): Promise<ConnectionState> {
    if (this.current.is !== "connecting") return Promise.resolve(this.current);
    return new Promise((resolve) => {
      const listening = this.onState.listen((state) => {
        if (state.is === "connecting") return;
        listening.dispose();
        resolve(state);
      });
    });
  }

  /** Sends an observation and calls `taken` when the hub confirms it. False if not connected. */
  send(observation: SentObservation, taken: () => void): boolean {
    if (!this.isReady) return false;
    this.socket.emit("oh_event", observation, taken);
    return true;
  }

  get hub(): string {
    return this.settings.hub;
  }

  /** Maximum message size that the hub accepts, in bytes. */
  get messageBytes(): number {
    return this.maxMessageBytes;
  }

  progress(message: ProgressMessage): void {
    if (this.isReady) this.socket.emit("oh_progress", message);
  }

  ask(requested: ApprovalRequested): void {
    if (this.isReady) this.socket.emit("approval.requested", requested);
  }

  answered(answered: ApprovalAnswered): void {
    if (this.isReady) this.socket.emit("approval.answered", answered);
  }

  /** Sends the list of pending changes, which is also sent after each registration. */
  reviewChanged(): void {
    const { review } = this.settings;
    if (this.isReady && review) this.socket.emit("review.changed", review.list());
  }

  changed(what: Partial<WindowDescription>): void {
    if (this.isReady) this.socket.emit("window.changed", what);
  }

  dispose(): void {
    this.isRegistered = false;
    this.socket.disconnect();
    this.setState({ is: "closed" });
  }

  private listen(): void {
    const { socket, receiver, merges } = this;
    const { review } = this.settings;
    socket.on("hello", (hello) => void this.register(hello));
    socket.on("refused", (refused) => this.refuse(refused.message));
    socket.on("disconnect", (reason) => this.lost(reason));
    socket.on("connect_error", (error) => this.failed(error));
    socket.on("health", (_, ack) => void this.health(ack));
    socket.on("oh_event", (message) => {
      // The hub sends actions only to a registered window. On a busy machine an action may overtake
      // the response to the registration, and its observation must not be dropped.
      this.registered();
      receiver.action(message);
    });
    socket.on("oh_cancel", ({ id }, ack) => {
      void receiver.cancel(id).then((known) => ack?.({ known }));
    });
    socket.on("oh_received", ({ ids }) => receiver.received(ids));
    socket.on("approval.answered", (answered) => receiver.approval(answered));
    socket.on("review.show", (file, ack) => void this.reply(() => review?.show(file), ack));
    socket.on("review.answer", (answer, ack) => void this.reply(() => review?.answer(answer), ack));
    socket.on("askers.left", ({ ids }) => receiver.left(ids));
    socket.on("merge.began", (merge, ack) => {
      void merges
        .began(merge)
        .catch((error: unknown) => this.log.error("a merge cannot be shown for review", error))
        .then(() => ack?.({}));
    });
    socket.on("merge.ended", ({ id }) => merges.ended(id));
    socket.on("superseded", () => {
      this.log.warn(
        "the editor of this extension host does not answer and another host took over; stopping all actions here",
      );
      receiver.superseded();
    });
  }

  /**
   * The newest host acts for a window, so a host whose editor does not answer must not register.
   */
  private async register(hello: Hello): Promise<void> {
    const { hub, token, identity, describe, probe } = this.settings;
    const socket = this.socket.id;
    this.maxMessageBytes = hello.limits.message_bytes;
    try {
      await within(probe(), PROBE_MS, () => new Failure("link", "the editor does not answer"));
      if (socket !== this.socket.id) return;
      this.described = describe();
      const response = await fetch(new URL("/api/vscode/register", hub), {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ nonce: hello.nonce, ...identity, ...this.described }),
        signal: AbortSignal.timeout(REGISTER_MS),
      });
      if (socket !== this.socket.id || this.current.is === "closed") return; // a newer connection registers
      if (!response.ok) {
        const problem = await errorMessage(response);
        if ([401, 403, 409].includes(response.status)) this.refuse(problem);
        else this.retryRegistration(problem);
        return;
      }
    } catch (error) {
      if (socket === this.socket.id && !this.isRegistered) this.retryRegistration(messageOf(error));
      return;
    }
    this.registered();
  }

  /** Called when the hub has registered the window; again only after a reconnect. */
  private registered(): void {
    if (this.isRegistered || !this.socket.connected) return;
    const { hub, identity, describe } = this.settings;
    this.isRegistered = true;
    this.log.info(`registered with ${hub} as ${identity.window_id}`);
    this.setState({ is: "connected", hub });
    const current = describe();
    // The description changed while the window was registering, so send the change now.
    if (!isDeepStrictEqual(current, this.described)) this.changed(current);
    this.receiver.ready();
    this.reviewChanged();
  }

  private async reply<T>(
    work: () => T | Promise<T> | undefined,
    ack: (reply: ReviewReply<T>) => void,
  ): Promise<void> {
    try {
      const value = await work();
      if (value === undefined) throw new Failure("edit.conflict", "This window has no review");
      ack({ value });
    } catch (error) {
      if (!(error instanceof Failure)) this.log.error("a request about the review failed", error);
      const code = error instanceof Failure ? error.code : "internal";
      ack({ error: { code, message: messageOf(error) } });
    }
  }

  /** Registration failed temporarily: reconnect, which gives a new nonce. */
  private retryRegistration(problem: string): void {
    this.log.warn(`registering failed: ${problem}`);
    this.setState({ is: "connecting", hub: this.settings.hub, problem });
    // Close the transport, because after `disconnect` the client would not reconnect with backoff.
    this.socket.io.engine.close();
  }

  private async health(
    ack: (health: { ok: boolean; milliseconds: number }) => void,
  ): Promise<void> {
    const began = performance.now();
    await this.settings.probe();
    ack({ ok: true, milliseconds: performance.now() - began });
  }

  private lost(reason: string): void {
    this.isRegistered = false;
    this.merges.lost();
    if (this.current.is === "closed" || this.current.is === "refused") return;
    if (reason === "io server disconnect")
      return this.refuse("The hub closed the connection and does not accept a new one");
    this.log.info(`disconnected from the hub: ${reason}`);
    this.setState({ is: "connecting", hub: this.settings.hub, problem: reason });
  }

  private failed(error: Error): void {
    this.isRegistered = false;
    const problem = `${error.message} ${descriptionOf(error)}`.trim();
    this.log.debug(`connecting to ${this.settings.hub} failed: ${problem}`);
    const denied = (error as { data?: { message?: string } }).data?.message;
    if (denied) return this.refuse(denied);
    const status = /\b(401|403)\b/.exec(problem)?.[1];
    if (status === "401")
      this.refuse("The hub does not know this window's token. Pair the window again.");
    else if (status === "403") this.refuse("The hub refuses this window (403).");
    else this.setState({ is: "connecting", hub: this.settings.hub, problem });
  }

  private refuse(problem: string): void {
    this.log.warn(`refused by ${this.settings.hub}: ${problem}`);
    this.isRegistered = false;
    this.setState({ is: "refused", hub: this.settings.hub, problem });
    this.socket.disconnect();
  }

  private setState(state: ConnectionState): void {
    this.current = state;
    this.onState.fire(state);
  }
}

/**
 * Exchanges a pairing code for a window token of `hub`. The hub's URL in the answer is ignored: the
 * user confirmed `hub` and no other.
 */
export async function pair(hub: string, code: string): Promise<string> {
  const url = new URL(`/api/vscode/pair/${encodeURIComponent(code.trim())}`, hub);
  const request = fetch(url, { method: "POST" });
  const response = await within(
    request,
    REGISTER_MS,
    () => new Failure("link", `${hub} does not answer`),
  );
  if (!response.ok) throw new Failure("pair.invalid", await errorMessage(response));
  const { token } = (await response.json()) as { token: unknown };
  if (typeof token !== "string") throw new Failure("pair.invalid", `${hub} sent no token`);
  return token;
}

async function errorMessage(response: Response): Promise<string> {
  try {
    const { message } = (await response.json()) as { message?: string };
    if (message) return message;
  } catch {
    // not our error format; report the status
  }
  return `the hub answered ${response.status}`;
}

/** The WebSocket client reports the HTTP status of a refused handshake only here. */
function descriptionOf(error: Error): string {
  const { description } = error as { description?: unknown };
  if (typeof description !== "object" || description === null) return "";
  const { message } = description as { message?: unknown };
  return typeof message === "string" ? message : "";
}
