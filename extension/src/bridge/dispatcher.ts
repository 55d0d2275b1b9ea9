/**
 * Answers the requests of one run: each once, under its time-out, cancelled when it is not wanted
 * any more. What a client asked before its connection broke is answered on the next one.
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

/** Requests of a run that may be under way at a time. */
const MOST_RUNNING = 256;
/** Answers kept in case a client comes back for them, and the characters they may have together. */
const MOST_KEPT = 256;
const KEPT_LENGTH = 16 << 20;

/** A request, as whoever answers it sees it. */
export interface BridgeRequest {
  readonly run: string;
  /** For people: what runs. */
  readonly name: string;
  readonly params: Params;
  /** Trips when nobody wants the answer any more. */
  readonly signal: AbortSignal;
  readonly progress: (value: unknown) => void;
  /** What the script says of its request while it is under way. */
  readonly onAdded: (listener: (value: unknown) => void) => void;
}

export type RequestHandler = (asking: BridgeRequest) => Promise<unknown>;
export type RequestHandlers = Readonly<Record<string, RequestHandler>>;
/** Where the answers to one client go; a new one takes the place of the old when it comes back. */
export interface BridgeClient {
  /** The same across its connections. */
  readonly key: string;
  send(text: string): void;
}

/** A request on its way to its answer, which it gets once. */
class PendingRequest implements BridgeRequest {
  private readonly listeners: ((value: unknown) => void)[] = [];
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
    this.timer = setTimeout(expire, Math.min(timeout, 2 ** 31 - 1));
  }

  /** Made when somebody looks: most answers come at once, and nobody does. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.reason) this.controller.abort(this.reason);
    return this.controller.signal;
  }

  /** Whatever the handler still does, this is the answer. */
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
    if (!this.listeners.length && this.early.length < MOST_KEPT) this.early.push(value);
    for (const listener of this.listeners) listener(value);
  }
}

export class RequestDispatcher implements Disposable {
  private readonly running = new Map<string, PendingRequest>();
  private readonly answers = new Map<string, string>();
  private keptLength = 0;
  private isOver = false;

  constructor(
    private readonly run: { id: string; name: string },
    private readonly handlers: RequestHandlers,
    private readonly log: Log,
  ) {}

  receive(client: BridgeClient, message: Incoming): void {
    switch (message.is) {
      case "request":
        this.ask(client, message);
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
        this.log.debug(`run ${this.run.id} tells ${message.event}`);
        break;
      case "hello":
        break;
    }
  }

  /** The client came back on another connection: what it waits for goes there. */
  moved(client: BridgeClient): void {
    for (const entry of this.running.values())
      if (entry.client.key === client.key) entry.client = client;
  }

  /** The client will not come back: what it asked for is dropped. */
  left(key: string): void {
    for (const entry of this.running.values())
      if (entry.client.key === key)
        entry.abort(new Failure("bridge.cancelled", "The script is gone"));
  }

  dispose(): void {
    this.isOver = true;
    for (const entry of this.running.values())
      entry.abort(new Failure("bridge.closed", "The run has ended"));
    this.answers.clear();
  }

  private ask(client: BridgeClient, message: Incoming & { is: "request" }): void {
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
      this.send(underway.client, key, format(answer));
    };
    const underway = new PendingRequest(client, id, params, this.run.id, this.run.name, settle);
    const fail = (error: unknown): void =>
      underway.end(failureMessage(id, asFailure(error, type, this.log)));
    try {
      const handler = this.admit(type);
      this.running.set(key, underway);
      handler(underway).then((result) => underway.end({ id, success: true, result }), fail);
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
    if (this.running.size >= MOST_RUNNING)
      throw new Failure("bridge.busy", `${MOST_RUNNING} requests of this run wait already`);
    return handler;
  }

  private keep(key: string, text: string): void {
    this.answers.set(key, text);
    this.keptLength += text.length;
    for (const [oldest, kept] of this.answers) {
      if (this.answers.size <= MOST_KEPT && this.keptLength <= KEPT_LENGTH) break;
      this.answers.delete(oldest);
      this.keptLength -= kept.length;
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
