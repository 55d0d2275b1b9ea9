import { io, type Socket } from "socket.io-client";
import { Failure } from "./failure";
import type {
  Approval,
  TimelineBatch,
  Demo,
  TimelineEntry,
  HubError,
  Hello,
  TimelineSource,
  Session,
  Usage,
  Window,
  ApprovalAnswer,
} from "./types";

export type ConnectionState = "connecting" | "live" | "lost" | "refused";

export interface HubListener {
  stateChanged(state: ConnectionState, why: string): void;
  hello(hello: Hello): void;
  session(session: Session): void;
  removed(id: string): void;
  windows(windows: Window[]): void;
  approvals(approvals: Approval[]): void;
  /** The pending changes in a window have changed. */
  review(window: string): void;
  demo(demo: Demo | null): void;
}

/** Receives one timeline. After a reconnect it continues at `position()`. */
export interface TimelineWatcher {
  /** The last entry received. */
  position(): { epoch: string; after: number };
  entries(epoch: string, entries: TimelineEntry[]): void;
  ended(why: string): void;
}

/** Shows one terminal. */
export interface TerminalScreen {
  /** The screen's size, and the offset of the next output byte; null before any output. */
  position(): { columns: number; rows: number; start: number | null };
  output(offset: number, data: Uint8Array): void;
  ended(why: string): void;
}

type Reply<T> = { value: T } | { error: HubError } | null;

const ANSWER_MS = 30_000;
/** Maximum number of key presses that wait for a terminal to open. */
const MAX_EARLY_KEYS = 1000;

/**
 * The page's Socket.IO connection to the hub. The hub sends the whole state on connect and changes
 * afterwards. After a lost connection, the page reconnects and resumes timelines and terminals.
 */
export class HubConnection {
  private readonly socket: Socket;
  private readonly watchers = new Map<string, [TimelineSource, TimelineWatcher]>();
  private readonly screens = new Map<string, [string, string, TerminalScreen]>();
  /** Keys for terminals that are not open yet. */
  private readonly earlyKeys = new Map<string, Uint8Array[]>();

  constructor(
    key: string,
    private readonly listener: HubListener,
  ) {
    this.socket = io("/page", {
      transports: ["websocket"],
      auth: { key },
      reconnectionDelay: 250,
      reconnectionDelayMax: 3000,
      autoConnect: false,
    });
    this.listen();
  }

  open(): void {
    this.socket.connect();
  }

  /** Sends a request and waits for the answer. Rejects with a `Failure`. */
  async ask<T = null>(event: string, data: object): Promise<T> {
    let reply: Reply<T>;
    try {
      reply = (await this.socket.timeout(ANSWER_MS).emitWithAck(event, data)) as Reply<T>;
    } catch {
      throw new Failure("hub.unreachable", "The hub does not answer. Is it running?");
    }
    if (reply === null) throw new Failure("hub.unreachable", "The hub is stopping");
    if ("error" in reply) throw Failure.of(reply.error, "The hub refused the request");
    return reply.value;
  }

  usage(): Promise<Record<string, Usage>> {
    return this.ask("usage", {});
  }

  answer(approval: Approval, answer: ApprovalAnswer): Promise<null> {
    const { id, window_id, session_id } = approval;
    return this.ask("approval.answer", { id, window_id, session_id, answer });
  }

  /** Starts the demo from the beginning, skips its current pause, or removes it. */
  demo(verb: "play" | "skip" | "remove"): Promise<null> {
    return this.ask(`demo.${verb}`, {});
  }

  /** Follows a timeline until the returned function is called. */
  watch(source: TimelineSource, watcher: TimelineWatcher): () => void {
    const name = `${source.kind} ${source.id}`;
    this.watchers.set(name, [source, watcher]);
    this.follow(source, watcher);
    return () => {
      if (this.watchers.get(name)?.[1] !== watcher) return;
      this.watchers.delete(name);
      if (this.socket.connected) this.socket.emit("unwatch", source);
    };
  }

  /** Shows a session's terminal until the returned function is called. Opens it if needed. */
  show(session: string, name: string, screen: TerminalScreen): () => void {
    const key = `${session} ${name}`;
    this.screens.set(key, [session, name, screen]);
    this.earlyKeys.set(key, []);
    this.openTerminal(session, name, screen);
    return () => {
      if (this.screens.get(key)?.[2] !== screen) return;
      this.screens.delete(key);
      this.earlyKeys.delete(key);
      if (this.socket.connected) this.socket.emit("terminal.leave", { session_id: session, name });
    };
  }

  reopen(session: string, name: string): void {
    const known = this.screens.get(`${session} ${name}`);
    if (known) this.openTerminal(...known);
  }

  /**
   * Types into a terminal. Keys wait until the terminal is open. After that, keys without a
   * connection are dropped.
   */
  type(session: string, name: string, keys: Uint8Array): void {
    const early = this.earlyKeys.get(`${session} ${name}`);
    if (early) {
      if (early.length < MAX_EARLY_KEYS) early.push(keys);
      return;
    }
    if (!this.socket.connected) return;
    const data = btoa(Array.from(keys, (byte) => String.fromCharCode(byte)).join(""));
    this.socket.emit("terminal.keys", { session_id: session, name, data });
  }

  resize(session: string, name: string, columns: number, rows: number): void {
    if (!this.socket.connected) return;
    this.socket.emit("terminal.keys", { session_id: session, name, columns, rows });
  }

  private follow(source: TimelineSource, watcher: TimelineWatcher): void {
    if (!this.socket.connected) return;
    this.ask("watch", { ...source, ...watcher.position() }).catch((error: unknown) =>
      watcher.ended(error instanceof Error ? error.message : String(error)),
    );
  }

  private openTerminal(session: string, name: string, screen: TerminalScreen): void {
    if (!this.socket.connected) return;
    this.ask("terminal.open", { session_id: session, name, ...screen.position() }).then(
      () => this.typeEarlyKeys(session, name, screen),
      (error: unknown) => screen.ended(error instanceof Error ? error.message : String(error)),
    );
  }

  private typeEarlyKeys(session: string, name: string, screen: TerminalScreen): void {
    const key = `${session} ${name}`;
    if (this.screens.get(key)?.[2] !== screen) return;
    const early = this.earlyKeys.get(key) ?? [];
    this.earlyKeys.delete(key);
    for (const keys of early) this.type(session, name, keys);
  }

  private listen(): void {
    const on = this.socket.on.bind(this.socket);
    on("hello", (hello: Hello) => {
      this.listener.hello(hello);
      this.listener.stateChanged("live", "");
      for (const [source, watcher] of this.watchers.values()) this.follow(source, watcher);
      for (const known of this.screens.values()) this.openTerminal(...known);
    });
    on("session", (session: Session) => this.listener.session(session));
    on("session.removed", ({ id }: { id: string }) => this.listener.removed(id));
    on("windows", (windows: Window[]) => this.listener.windows(windows));
    on("approvals", (approvals: Approval[]) => this.listener.approvals(approvals));
    on("review", ({ window_id: window }: { window_id: string }) => this.listener.review(window));
    on("demo", (demo: Demo | null) => this.listener.demo(demo));
    on("timeline", (batch: TimelineBatch) => {
      this.watchers.get(`${batch.kind} ${batch.id}`)?.[1].entries(batch.epoch, batch.entries);
    });
    on("timeline.ended", ({ kind, id, error }: TimelineSource & { error: Partial<HubError> }) => {
      this.watchers.get(`${kind} ${id}`)?.[1].ended(error.message ?? "");
    });
    on("terminal.output", (message: TerminalOutput) => {
      const bytes = Uint8Array.from(atob(message.data), (letter) => letter.charCodeAt(0));
      this.screens.get(`${message.session_id} ${message.name}`)?.[2].output(message.offset, bytes);
    });
    on("terminal.ended", (message: { session_id: string; name: string; why: string }) => {
      this.screens.get(`${message.session_id} ${message.name}`)?.[2].ended(message.why);
    });
    on("disconnect", (reason) => {
      // The hub disconnects a client only after sign-out; a hub that stops drops the transport.
      if (reason === "io server disconnect")
        this.listener.stateChanged("refused", "You are signed out.");
      else this.listener.stateChanged("lost", "");
    });
    on("connect_error", (error: Error & { data?: Partial<HubError> }) => {
      if (error.data?.code === "access.denied") {
        this.socket.disconnect();
        this.listener.stateChanged("refused", error.message);
      } else this.listener.stateChanged("lost", "");
    });
  }
}

interface TerminalOutput {
  session_id: string;
  name: string;
  offset: number;
  data: string;
}
