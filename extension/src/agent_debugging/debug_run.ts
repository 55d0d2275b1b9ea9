/**
 * The state of a program that an agent debugs, from the messages between VS Code and the debug
 * adapters. One run can have several debug sessions: the JavaScript debugger has a child session
 * for each process.
 */
import { OutputTail } from "./output_tail";

/** A message of the Debug Adapter Protocol. */
export interface DapMessage {
  type?: string;
  seq?: number;
  command?: string;
  event?: string;
  arguments?: Record<string, unknown>;
  body?: Record<string, unknown>;
  success?: boolean;
  message?: string;
  request_seq?: number;
}

/** A thread that has stopped. */
export interface ThreadStop {
  session: string;
  thread: number;
  reason: string;
  description: string;
}

/** Requests after which the program runs. */
const MOVES = new Set([
  "continue",
  "next",
  "stepIn",
  "stepOut",
  "stepBack",
  "reverseContinue",
  "goto",
  "restart",
]);
/** Requests by which the user controls the program. */
const CONTROLS = new Set([...MOVES, "pause", "terminate", "disconnect"]);
const MAX_OUTPUT_CHARS = 16_000;

export class DebugRun {
  /** We are ending the sessions, so their end is not an action of the user. */
  isStopping = false;
  exitCode: number | null = null;
  private why = "";
  private readonly liveSessions = new Set<string>();
  /** Sessions whose program has ended. VS Code itself then ends the session. */
  private readonly terminated = new Set<string>();
  /** Stopped threads, in the order in which they stopped. */
  private stops: ThreadStop[] = [];
  private hadSession = false;
  private readonly output = new OutputTail(MAX_OUTPUT_CHARS);
  /** Requests that we are about to send, as `session command`. */
  private readonly expected: string[] = [];
  /** The stops before a request that lets the program run, in case the request fails. */
  private readonly stopsBefore = new Map<string, ThreadStop[]>();
  private personRequests = new Set<string>();
  private readonly waiting = new Set<() => void>();

  /** The thread that stopped last. */
  get stop(): ThreadStop | undefined {
    return this.stops.at(-1);
  }

  /** Why the program could not be started; empty if it could. */
  get failure(): string {
    return this.why;
  }

  fail(why: string): void {
    this.why ||= why;
    this.notify();
  }

  get hasEnded(): boolean {
    return this.why !== "" || (this.hadSession && this.liveSessions.size === 0);
  }

  isStopped(session: string, thread: number): boolean {
    return this.stops.some((each) => each.session === session && each.thread === thread);
  }

  stopOf(thread: number): ThreadStop | undefined {
    return this.stops.findLast((each) => each.thread === thread);
  }

  sessionStarted(session: string): void {
    this.liveSessions.add(session);
    this.hadSession = true;
    this.notify();
  }

  sessionEnded(session: string): void {
    this.liveSessions.delete(session);
    this.terminated.delete(session);
    this.forget(session);
    this.notify();
  }

  /** Call before sending a request, so that it is not taken for a request of the user. */
  expect(session: string, command: string): void {
    this.expected.push(`${session} ${command}`);
  }

  /** Whether a request that `expect` announced has not been sent yet. */
  isExpected(session: string, command: string): boolean {
    return this.expected.includes(`${session} ${command}`);
  }

  /** A message from VS Code to the adapter. */
  sent(session: string, message: DapMessage): void {
    const { type, command = "", seq } = message;
    if (type !== "request" || !CONTROLS.has(command)) return;
    const expected = this.expected.indexOf(`${session} ${command}`);
    if (expected >= 0) this.expected.splice(expected, 1);
    else if (!this.isStopping && !this.terminated.has(session)) this.personRequests.add(command);
    if (!MOVES.has(command)) return;
    this.stopsBefore.set(`${session} ${seq}`, this.stops);
    this.forget(session);
    this.notify();
  }

  /** A message from the adapter to VS Code. */
  received(session: string, message: DapMessage): void {
    if (message.type === "event") this.event(session, message);
    else if (message.type === "response") this.response(session, message);
  }

  /** What the user did since the last call, as names of requests. */
  takePersonRequests(): string[] {
    const taken = [...this.personRequests];
    this.personRequests = new Set();
    return taken;
  }

  takeOutput(): { text: string; leftOut: number } {
    return this.output.take();
  }

  /** Resolves to true when `isDone` holds, to false at the time `until` or if `signal` aborts. */
  async waitFor(isDone: () => boolean, until: number, signal: AbortSignal): Promise<boolean> {
    while (!isDone()) {
      const left = until - performance.now();
      if (left <= 0 || signal.aborted) return false;
      await this.nextChange(left, signal);
    }
    return true;
  }

  private nextChange(milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      this.waiting.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  private event(session: string, { event, body = {} }: DapMessage): void {
    if (event === "stopped") {
      const thread = Number(body["threadId"] ?? 0);
      const texts = [body["description"], body["text"]].filter((each) => typeof each === "string");
      this.stops = this.stops.filter((each) => each.session !== session || each.thread !== thread);
      const reason = textOf(body["reason"]);
      this.stops.push({ session, thread, reason, description: [...new Set(texts)].join(": ") });
    } else if (event === "continued") this.forget(session);
    else if (event === "terminated") this.terminated.add(session);
    else if (event === "exited") this.exitCode = Number(body["exitCode"] ?? 0);
    else if (event === "output" && body["category"] !== "telemetry") {
      this.printed(textOf(body["output"]));
      return;
    } else return;
    this.notify();
  }

  private printed(text: string): void {
    this.output.add(text);
    // The JavaScript debugger sends no `exited` event, only this text.
    const code = /^Process exited with code (\d+)\s*$/.exec(text)?.[1];
    if (code !== undefined) this.exitCode = Number(code);
  }

  private response(session: string, message: DapMessage): void {
    const { command = "", success, request_seq: seq } = message;
    if (["launch", "attach"].includes(command) && success === false) this.fail(errorOf(message));
    const before = this.stopsBefore.get(`${session} ${seq}`);
    if (!before) return;
    this.stopsBefore.delete(`${session} ${seq}`);
    if (success !== false) return;
    this.stops = before;
    this.notify();
  }

  private forget(session: string): void {
    this.stops = this.stops.filter((each) => each.session !== session);
  }

  /** Makes every `waitFor` check its condition again. */
  notify(): void {
    for (const done of [...this.waiting]) done();
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The text of a response that failed. */
function errorOf({ body, message = "" }: DapMessage): string {
  const error = body?.["error"] as { format?: string; variables?: object } | undefined;
  const variables = (error?.variables ?? {}) as Record<string, unknown>;
  const text = error?.format?.replace(/\{(\w+)\}/g, (all, name: string) =>
    name in variables ? String(variables[name]) : all,
  );
  return text ?? (message || "the debugger gave no reason");
}
