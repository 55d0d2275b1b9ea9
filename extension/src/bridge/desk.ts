/**
 * Answers the requests of one run: each once, under its time-out, cancelled when it is not wanted
 * any more. What a client asked before its connection broke is answered on the next one.
 */
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { failed, format, type Incoming, type Outgoing, type Params } from "./messages";

/** Requests of a run that may be under way at a time. */
const MOST_RUNNING = 256;
/** Answers kept in case a client comes back for them, and the characters they may have together. */
const MOST_KEPT = 256;
const KEPT_LENGTH = 16 << 20;

/** A request, as whoever answers it sees it. */
export interface Asking {
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

export type Handler = (asking: Asking) => Promise<unknown>;
export type Handlers = Readonly<Record<string, Handler>>;
/** Where the answers to one client go; a new one takes the place of the old when it comes back. */
export interface Client {
  /** The same across its connections. */
  readonly key: string;
  send(text: string): void;
}

interface Entry {
  client: Client;
  readonly abort: AbortController;
  readonly listeners: ((value: unknown) => void)[];
  readonly early: unknown[];
}

export class Desk implements Disposable {
  private readonly running = new Map<string, Entry>();
  private readonly answers = new Map<string, string>();
  private keptLength = 0;
  private isOver = false;

  constructor(
    private readonly run: { id: string; name: string },
    private readonly handlers: Handlers,
    private readonly log: Log,
  ) {}

  receive(client: Client, message: Incoming): void {
    switch (message.is) {
      case "request":
        this.ask(client, message);
        break;
      case "cancel":
        this.running
          .get(keyOf(client, message.id))
          ?.abort.abort(new Failure("bridge.cancelled", "The script cancelled it"));
        break;
      case "progress":
        this.add(keyOf(client, message.id), message.value);
        break;
      case "event":
        this.log.debug(`run ${this.run.id} tells ${message.event}`);
        break;
      case "hello":
        break;
    }
  }

  /** The client came back on another connection: what it waits for goes there. */
  moved(client: Client): void {
    for (const entry of this.running.values())
      if (entry.client.key === client.key) entry.client = client;
  }

  /** The client will not come back: what it asked for is dropped. */
  left(key: string): void {
    for (const entry of this.running.values())
      if (entry.client.key === key)
        entry.abort.abort(new Failure("bridge.cancelled", "The script is gone"));
  }

  dispose(): void {
    this.isOver = true;
    for (const entry of this.running.values())
      entry.abort.abort(new Failure("bridge.closed", "The run has ended"));
    this.answers.clear();
  }

  private ask(client: Client, message: Incoming & { is: "request" }): void {
    const key = keyOf(client, message.id);
    const entry = this.running.get(key);
    const known = this.answers.get(key);
    if (entry) entry.client = client;
    else if (known !== undefined) client.send(known);
    else void this.answer(client, key, message);
  }

  private async answer(
    client: Client,
    key: string,
    { id, type, params }: Incoming & { is: "request" },
  ): Promise<void> {
    const entry: Entry = { client, abort: new AbortController(), listeners: [], early: [] };
    let answer: Outgoing;
    try {
      const handler = this.admit(type);
      this.running.set(key, entry);
      answer = { id, success: true, result: await this.perform(handler, id, params, entry) };
    } catch (error) {
      answer = failed(id, asFailure(error, type, this.log));
    } finally {
      this.running.delete(key);
    }
    const text = format(answer);
    if (this.isOver) return;
    this.keep(key, text);
    entry.client.send(text);
  }

  private admit(type: string): Handler {
    const handler = Object.hasOwn(this.handlers, type) ? this.handlers[type] : undefined;
    if (!handler)
      throw new Failure("bridge.unknown_type", `This window does not know the request '${type}'`);
    if (this.isOver) throw new Failure("bridge.closed", "The run has ended");
    if (this.running.size >= MOST_RUNNING)
      throw new Failure("bridge.busy", `${MOST_RUNNING} requests of this run wait already`);
    return handler;
  }

  /** Whatever the handler does, the answer comes when it is aborted or out of time. */
  private async perform(
    handler: Handler,
    id: string | number,
    params: Params,
    entry: Entry,
  ): Promise<unknown> {
    const { signal } = entry.abort;
    const timer = startTimer(params["timeout"], entry.abort);
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Failure), { once: true });
    });
    aborted.catch(() => undefined);
    try {
      const work = handler({
        run: this.run.id,
        name: this.run.name,
        params,
        signal,
        progress: (value) => this.progress(entry, id, value),
        onAdded: (listener) => {
          entry.listeners.push(listener);
          for (const value of entry.early.splice(0)) listener(value);
        },
      });
      return await Promise.race([work, aborted]);
    } finally {
      clearTimeout(timer);
    }
  }

  private progress(entry: Entry, id: string | number, value: unknown): void {
    if (!entry.abort.signal.aborted)
      entry.client.send(format({ type: "$/progress", params: { id, value } }));
  }

  private add(key: string, value: unknown): void {
    const entry = this.running.get(key);
    if (!entry) return;
    if (!entry.listeners.length && entry.early.length < MOST_KEPT) entry.early.push(value);
    for (const listener of entry.listeners) listener(value);
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

function keyOf(client: Client, id: string | number): string {
  return `${client.key} ${typeof id} ${id}`;
}

function startTimer(timeout: unknown, abort: AbortController): NodeJS.Timeout | undefined {
  if (typeof timeout !== "number" || !(timeout >= 0)) return undefined;
  const late = (): void =>
    abort.abort(
      new Failure("bridge.timed_out", `There was no answer in ${timeout / 1000} seconds`),
    );
  return setTimeout(late, Math.min(timeout, 2 ** 31 - 1));
}

function asFailure(error: unknown, type: string, log: Log): Failure {
  if (error instanceof Failure) return error;
  log.error(`${type}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return new Failure("bridge.failed", `${type} failed: ${messageOf(error)}`);
}
