/**
 * Dispatches the requests of one run to their handlers. Each request is answered once, within its
 * timeout, and can be cancelled. After a reconnect, a client gets the answers on the new
 * connection.
 */
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import {
  failureMessage,
  format,
  type Incoming,
  type Outgoing,
  type Params,
  type RequestId,
} from "./messages";

/** Maximum number of pending requests of a run. */
const MAX_PENDING = 256;
/** Maximum number, and total characters, of answers kept for clients that reconnect. */
const MAX_KEPT_ANSWERS = 256;
const MAX_KEPT_CHARS = 16 << 20;

/** A request as its handler sees it. */
export interface BridgeRequest {
  readonly run: string;
  /** Display name of the run. */
  readonly name: string;
  readonly params: Params;
  /** Aborts when the request is cancelled or times out, or its run ends. */
  readonly signal: AbortSignal;
  readonly progress: (value: unknown) => void;
  /** Registers a listener for values that the script sends while this request is pending. */
  readonly onAdded: (listener: (value: unknown) => void) => void;
}

export type RequestHandler = (request: BridgeRequest) => Promise<unknown>;
export type RequestHandlers = Readonly<Record<string, RequestHandler>>;
/** A connection to a client. After a reconnect, a new connection replaces the old one. */
export interface BridgeClient {
  /** Identifies the client. All connections of the client have the same key. */
  readonly key: string;
  send(text: string): void;
}

/** A pending request. It is answered once. */
class PendingRequest implements BridgeRequest {
  private readonly listeners: ((value: unknown) => void)[] = [];
  /** Values that arrived before the handler registered a listener. */
  private readonly early: unknown[] = [];
  private controller: AbortController | undefined;
  private reason: Failure | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    public client: BridgeClient,
    readonly id: RequestId,
    readonly params: Params,
    readonly run: string,
    readonly name: string,
    private readonly settle: (answer: Outgoing) => void,
  ) {
    const { timeout } = params;
    if (typeof timeout !== "number" || !(timeout >= 0)) return;
    const late = `There was no answer in ${timeout / 1000} seconds`;
    const expire = (): void => this.abort(new Failure("bridge.timed_out", late));
    // A timer with a longer delay would fire at once in Node.
    this.timer = setTimeout(expire, Math.min(timeout, 2 ** 31 - 1));
  }

  /** Created on first use: most handlers answer at once and need no signal. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.reason) this.controller.abort(this.reason);
    return this.controller.signal;
  }

  /** Answers with an error now; the handler's later result is ignored. */
  abort(reason: Failure): void {
    if (this.reason) return;
    this.reason = reason;
    this.controller?.abort(reason);
    this.end(failureMessage(this.id, reason));
  }

  end(answer: Outgoing): void {
    clearTimeout(this.timer);
    this.settle(answer);
  }

  readonly progress = (value: unknown): void => {
    if (!this.reason)
      this.client.send(format({ type: "$/progress", params: { id: this.id, value } }));
  };

  readonly onAdded = (listener: (value: unknown) => void): void => {
    this.listeners.push(listener);
    for (const value of this.early.splice(0)) listener(value);
  };

  add(value: unknown): void {
    if (!this.listeners.length && this.early.length < MAX_KEPT_ANSWERS) this.early.push(value);
    for (const listener of this.listeners) listener(value);
  }
}

export class RequestDispatcher implements Disposable {
  private readonly running = new Map<string, PendingRequest>();
  private readonly answers = new Map<string, string>();
  private keptChars = 0;
  private isOver = false;

  constructor(
    private readonly run: { id: string; name: string },
    private readonly handlers: RequestHandlers,
    private readonly log: Log,
  ) {}

  receive(client: BridgeClient, message: Incoming): void {
    switch (message.is) {
      case "request":
        this.handleRequest(client, message);
        break;
      case "cancel":
        this.running
          .get(keyOf(client, message.id))
          ?.abort(new Failure("bridge.cancelled", "The script cancelled it"));
        break;
      case "progress":
        this.running.get(keyOf(client, message.id))?.add(message.value);
        break;
      case "event":
        this.log.debug(`run ${this.run.id} sent the event ${message.event}`);
        break;
      case "hello":
        break;
    }
  }

  /** The client reconnected: send pending answers to the new connection. */
  moved(client: BridgeClient): void {
    for (const entry of this.running.values())
      if (entry.client.key === client.key) entry.client = client;
  }

  /** The client will not reconnect: cancel its requests. */
  left(key: string): void {
    for (const entry of this.running.values())
      if (entry.client.key === key)
        entry.abort(new Failure("bridge.cancelled", "The script disconnected"));
  }

  dispose(): void {
    this.isOver = true;
    for (const entry of this.running.values())
      entry.abort(new Failure("bridge.closed", "The run has ended"));
    this.answers.clear();
  }

  /** A client may repeat a request after a reconnect; the handler runs only once. */
  private handleRequest(client: BridgeClient, message: Incoming & { is: "request" }): void {
    const key = keyOf(client, message.id);
    const entry = this.running.get(key);
    const known = this.answers.get(key);
    if (entry) entry.client = client;
    else if (known !== undefined) client.send(known);
    else this.answer(client, key, message);
  }

  private answer(client: BridgeClient, key: string, message: Incoming & { is: "request" }): void {
    const { id, type, params } = message;
    let isAnswered = false;
    const settle = (answer: Outgoing): void => {
      if (isAnswered) return;
      isAnswered = true;
      this.running.delete(key);
      this.send(pending.client, key, format(answer));
    };
    const pending = new PendingRequest(client, id, params, this.run.id, this.run.name, settle);
    const fail = (error: unknown): void =>
      pending.end(failureMessage(id, asFailure(error, type, this.log)));
    try {
      const handler = this.admit(type);
      this.running.set(key, pending);
      handler(pending).then((result) => pending.end({ id, success: true, result }), fail);
    } catch (error) {
      fail(error);
    }
  }

  private send(client: BridgeClient, key: string, text: string): void {
    if (this.isOver) return;
    this.keep(key, text);
    client.send(text);
  }

  private admit(type: string): RequestHandler {
    const handler = Object.hasOwn(this.handlers, type) ? this.handlers[type] : undefined;
    if (!handler)
      throw new Failure("bridge.unknown_type", `This window does not know the request '${type}'`);
    if (this.isOver) throw new Failure("bridge.closed", "The run has ended");
    if (this.running.size >= MAX_PENDING)
      throw new Failure("bridge.busy", `${MAX_PENDING} requests of this run are already pending`);
    return handler;
  }

  private keep(key: string, text: string): void {
    this.answers.set(key, text);
    this.keptChars += text.length;
    for (const [oldest, kept] of this.answers) {
      if (this.answers.size <= MAX_KEPT_ANSWERS && this.keptChars <= MAX_KEPT_CHARS) break;
      this.answers.delete(oldest);
      this.keptChars -= kept.length;
    }
  }
}

function keyOf(client: BridgeClient, id: string | number): string {
  return `${client.key} ${typeof id} ${id}`;
}

function asFailure(error: unknown, type: string, log: Log): Failure {
  if (error instanceof Failure) return error;
  log.error(`${type}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return new Failure("bridge.failed", `${type} failed: ${messageOf(error)}`);
}
