/** The runs that may send requests, each with its own token. Only the hash of a token is kept. */
import { createHash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import type { Log } from "../common/log";
import { RequestDispatcher, type BridgeClient, type RequestHandlers } from "./dispatcher";

/** Maximum number of connections of a run. */
const MAX_CLIENTS = 32;
/** Milliseconds a client has to reconnect before its requests are cancelled. */
const RETURN_MS = 30_000;

export class Run {
  readonly id = randomUUID();
  readonly dispatcher: RequestDispatcher;
  private readonly hash: Buffer;
  private readonly connections = new Map<string, Set<object>>();
  private readonly leaving = new Map<string, NodeJS.Timeout>();

  constructor(name: string, token: string, handlers: RequestHandlers, log: Log) {
    this.hash = digest(token);
    this.dispatcher = new RequestDispatcher({ id: this.id, name }, handlers, log);
  }

  get isFull(): boolean {
    let all = 0;
    for (const each of this.connections.values()) all += each.size;
    return all >= MAX_CLIENTS;
  }

  has(hash: Buffer): boolean {
    return timingSafeEqual(this.hash, hash);
  }

  /** A client connected, or reconnected: its pending requests continue. */
  joined(client: BridgeClient): void {
    clearTimeout(this.leaving.get(client.key));
    this.leaving.delete(client.key);
    const all = this.connections.get(client.key) ?? new Set<object>();
    this.connections.set(client.key, all.add(client));
    this.dispatcher.moved(client);
  }

  /** A connection closed. Cancels the client's requests if it does not reconnect in time. */
  left(client: BridgeClient): void {
    const all = this.connections.get(client.key);
    all?.delete(client);
    if (!all || all.size) return;
    this.connections.delete(client.key);
    const drop = (): void => {
      this.leaving.delete(client.key);
      this.dispatcher.left(client.key);
    };
    this.leaving.set(client.key, setTimeout(drop, RETURN_MS));
  }

  end(): void {
    for (const timer of this.leaving.values()) clearTimeout(timer);
    this.leaving.clear();
    this.dispatcher.dispose();
  }
}

export class Runs {
  private readonly all = new Map<string, Run>();

  constructor(
    private readonly handlers: RequestHandlers,
    private readonly log: Log,
  ) {}

  get size(): number {
    return this.all.size;
  }

  [Symbol.iterator](): Iterator<Run> {
    return [...this.all.values()][Symbol.iterator]();
  }

  /** Starts a run and returns its token, which is not stored. */
  begin(name: string): { run: Run; token: string } {
    const token = randomBytes(32).toString("base64url");
    const run = new Run(name, token, this.handlers, this.log);
    this.all.set(run.id, run);
    return { run, token };
  }

  /** The run with this token. Compares all tokens, so that the time reveals nothing. */
  find(token: string): Run | undefined {
    const hash = digest(token);
    let found: Run | undefined;
    for (const run of this.all.values()) if (run.has(hash)) found = run;
    return found;
  }

  end(run: Run): void {
    if (this.all.delete(run.id)) run.end();
  }
}

function digest(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
