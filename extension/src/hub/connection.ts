/** The socket to the hub: connects, registers, answers health, and tries again when it is cut. */
import { isDeepStrictEqual } from "node:util";
import { io, type Socket } from "socket.io-client";
import type { Disposable } from "../common/disposables";
import { within } from "../common/deadline";
import { Emitter } from "../common/emitter";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import type { SentObservation } from "../protocol";
import {
  HUB_NAMESPACE,
  HUB_PROTOCOL,
  type ApprovalAnswered,
  type ApprovalRequested,
  type FromHub,
  type Hello,
  type ProgressMessage,
  type ToHub,
  type WindowDescription,
  type WindowIdentity,
} from "./messages";

const REGISTER_MS = 30_000;
/** Milliseconds the editor has to answer before this host speaks for the window. */
const PROBE_MS = 20_000;
const DEFAULT_LIMIT = 1 << 20;

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
  /** A round trip through the editor; whether its answer is good or bad does not matter. */
  probe: () => Promise<void>;
  retry?: { firstMs: number; mostMs: number };
}

/** What the connection hands on. */
export interface HubReceiver {
  action(message: unknown): void;
  cancel(id: string): Promise<boolean>;
  /** Whoever asked for these actions has their observations. */
  received(ids: string[]): void;
  approval(answered: ApprovalAnswered): void;
  /** Nobody waits for these actions; those that were not begun yet are not wanted. */
  left(ids: readonly string[]): void;
  /** Another host does this window's actions now; what runs here is to end. */
  superseded(): void;
  /** Registered, for the first time or again: what was not confirmed may be sent now. */
  ready(): void;
}

/**
 * One attempt to be connected, for as long as it is not disposed. A hub that is gone is tried
 * again with growing pauses. One that says no (another protocol, a bad token, a window id that
 * belongs to another) is not: only a person can mend that.
 */
export class HubConnection implements Disposable {
  readonly onState: Emitter<ConnectionState>;
  private current: ConnectionState;
  private readonly socket: Socket<FromHub, ToHub>;
  private limit = DEFAULT_LIMIT;
  private registered = false;

  constructor(
    private readonly settings: HubConnectionSettings,
    private readonly receiver: HubReceiver,
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
    return this.registered && this.socket.connected;
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

  /** Sends when registered, and calls back when the hub has taken it. False: it is not connected. */
  send(observation: SentObservation, taken: () => void): boolean {
    if (!this.isReady) return false;
    this.socket.emit("oh_event", observation, taken);
    return true;
  }

  get hub(): string {
    return this.settings.hub;
  }

  /** Bytes of the largest message the hub takes. */
  get messageBytes(): number {
    return this.limit;
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

  changed(what: Partial<WindowDescription>): void {
    if (this.isReady) this.socket.emit("window.changed", what);
  }

  dispose(): void {
    this.registered = false;
    this.socket.disconnect();
    this.become({ is: "closed" });
  }

  private listen(): void {
    const { socket, receiver } = this;
    socket.on("hello", (hello) => void this.register(hello));
    socket.on("refused", (refused) => this.refuse(refused.message));
    socket.on("disconnect", (reason) => this.lost(reason));
    socket.on("connect_error", (error) => this.failed(error));
    socket.on("health", (_, ack) => void this.health(ack));
    socket.on("oh_event", (message) => receiver.action(message));
    socket.on("oh_cancel", ({ id }, ack) => {
      void receiver.cancel(id).then((known) => ack?.({ known }));
    });
    socket.on("oh_received", ({ ids }) => receiver.received(ids));
    socket.on("approval.answered", (answered) => receiver.approval(answered));
    socket.on("askers.left", ({ ids }) => receiver.left(ids));
    socket.on("superseded", () => {
      this.log.warn("the editor of this host is dead and another host does its work: ending here");
      receiver.superseded();
    });
  }

  /** The newest host speaks for a window: one whose editor is dead must not become that. */
  private async register(hello: Hello): Promise<void> {
    const { hub, token, identity, describe, probe } = this.settings;
    const socket = this.socket.id;
    this.limit = hello.limits.message_bytes;
    let described: WindowDescription;
    try {
      await within(probe(), PROBE_MS, () => new Failure("link", "the editor does not answer"));
      if (socket !== this.socket.id) return;
      described = describe();
      const response = await fetch(new URL("/api/vscode/register", hub), {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ nonce: hello.nonce, ...identity, ...described }),
        signal: AbortSignal.timeout(REGISTER_MS),
      });
      if (socket !== this.socket.id || this.current.is === "closed") return; // a later one registers
      if (!response.ok) {
        const problem = await complaint(response);
        if ([401, 403, 409].includes(response.status)) this.refuse(problem);
        else this.again(problem);
        return;
      }
    } catch (error) {
      if (socket === this.socket.id) this.again(messageOf(error));
      return;
    }
    this.registered = true;
    this.log.info(`registered with ${hub} as ${identity.window_id}`);
    this.become({ is: "connected", hub });
    const current = describe();
    // What changed meanwhile could not be told.
    if (!isDeepStrictEqual(current, described)) this.changed(current);
    this.receiver.ready();
  }

  /** Registering failed in a way that may pass: begin again with a new nonce. */
  private again(problem: string): void {
    this.log.warn(`registering failed: ${problem}`);
    this.become({ is: "connecting", hub: this.settings.hub, problem });
    // Closing the transport, unlike `disconnect`, leaves the growing pauses to the client.
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
    this.registered = false;
    if (this.current.is === "closed" || this.current.is === "refused") return;
    if (reason === "io server disconnect")
      return this.refuse("The hub ended the connection and wants no other");
    this.log.info(`the hub is gone: ${reason}`);
    this.become({ is: "connecting", hub: this.settings.hub, problem: reason });
  }

  private failed(error: Error): void {
    this.registered = false;
    const problem = `${error.message} ${descriptionOf(error)}`.trim();
    this.log.debug(`connecting to ${this.settings.hub} failed: ${problem}`);
    const denied = (error as { data?: { message?: string } }).data?.message;
    if (denied) return this.refuse(denied);
    const status = /\b(401|403)\b/.exec(problem)?.[1];
    if (status === "401") this.refuse("The hub does not know this window's token. Pair it again.");
    else if (status === "403") this.refuse("The hub does not admit this window (403).");
    else this.become({ is: "connecting", hub: this.settings.hub, problem });
  }

  private refuse(problem: string): void {
    this.log.warn(`refused by ${this.settings.hub}: ${problem}`);
    this.registered = false;
    this.become({ is: "refused", hub: this.settings.hub, problem });
    this.socket.disconnect();
  }

  private become(state: ConnectionState): void {
    this.current = state;
    this.onState.fire(state);
  }
}

/**
 * Redeems a pairing code for a token of window scope, good at `hub`. The answer also names a hub,
 * which is not heeded: the person has confirmed `hub` and no other.
 */
export async function pair(hub: string, code: string): Promise<string> {
  const url = new URL(`/api/vscode/pair/${encodeURIComponent(code.trim())}`, hub);
  const request = fetch(url, { method: "POST" });
  const response = await within(
    request,
    REGISTER_MS,
    () => new Failure("link", `${hub} does not answer`),
  );
  if (!response.ok) throw new Failure("pair.invalid", await complaint(response));
  const { token } = (await response.json()) as { token: unknown };
  if (typeof token !== "string") throw new Failure("pair.invalid", `${hub} sent no token`);
  return token;
}

async function complaint(response: Response): Promise<string> {
  try {
    const { message } = (await response.json()) as { message?: string };
    if (message) return message;
  } catch {
    // not an envelope of ours; the status says enough
  }
  return `the hub answered ${response.status}`;
}

/** Where the WebSocket client hides the status of a refused handshake. */
function descriptionOf(error: Error): string {
  const { description } = error as { description?: unknown };
  if (typeof description !== "object" || description === null) return "";
  const { message } = description as { message?: unknown };
  return typeof message === "string" ? message : "";
}
