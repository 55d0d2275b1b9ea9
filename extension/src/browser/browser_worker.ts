/** Runs the headless browser's worker process (`bascule.sandbox.browser.worker`) over pipes. */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";

/** Start parameters of the worker: directories, and addresses that the browser must refuse. */
export interface BrowserScope {
  working_dir: string;
  roots: string[];
  refused: [string, number][];
}

export interface PageObservation {
  kind: "browse" | "download";
  content: string;
  extras: Record<string, unknown>;
}

interface BrowserMessage {
  op: "ready" | "failed" | "done";
  id?: string;
  observation?: PageObservation;
  error?: { code: string; message: string; detail: Record<string, unknown> };
}

interface Waiting {
  resolve(observation: PageObservation): void;
  reject(error: Error): void;
}

const PROBE_MS = 5000;
const FIND =
  "from bascule.sandbox.browser.settings import BrowserSettings, find_chromium; " +
  "print(find_chromium(BrowserSettings()) or '')";

/** The path of Chromium if `python` has bascule[browser]; otherwise undefined. */
export async function findChromium(python: string, log: Log): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(python, ["-P", "-c", FIND], { timeout: PROBE_MS }, (error, stdout) => {
      if (error) log.debug(`no browser by ${python}: ${error.message.split("\n").at(-1) ?? ""}`);
      resolve(error ? undefined : stdout.trim() || undefined);
    });
  });
}

/** Starts the process with the first request, and again after it exited. Disposing ends it. */
export class BrowserWorker implements Disposable {
  private child: ChildProcessWithoutNullStreams | undefined;
  private readonly waiting = new Map<string, Waiting>();
  /** The last part of the worker's stderr. */
  private stderrTail = "";

  constructor(
    private readonly python: string,
    private readonly chromium: string,
    private readonly env: NodeJS.ProcessEnv,
    private readonly scope: () => BrowserScope,
    private readonly log: Log,
  ) {}

  async ask(
    id: string,
    request: { kind: string; args: unknown; timeout: number | undefined },
    signal: AbortSignal,
  ): Promise<PageObservation> {
    const child = this.running();
    const answered = new Promise<PageObservation>((resolve, reject) =>
      this.waiting.set(id, { resolve, reject }),
    );
    const cancel = (): void => {
      this.send(child, { op: "cancel", id });
      this.waiting.get(id)?.reject(new Failure("action.cancelled", "The action was cancelled"));
    };
    signal.addEventListener("abort", cancel, { once: true });
    this.send(child, { op: "act", id, ...request });
    try {
      return await answered;
    } finally {
      this.waiting.delete(id);
      signal.removeEventListener("abort", cancel);
    }
  }

  dispose(): void {
    const child = this.child;
    this.child = undefined;
    child?.stdin.end(); // at the end of input, the worker ends itself and the browser
  }

  private running(): ChildProcessWithoutNullStreams {
    if (this.child) return this.child;
    const { working_dir, roots, refused } = this.scope();
    const child = spawn(this.python, ["-P", "-m", "bascule.sandbox.browser.worker"], {
      cwd: working_dir,
      env: this.env,
    });
    this.child = child;
    this.stderrTail = "";
    child.on("error", (error) => this.ended(child, messageOf(error)));
    child.on("close", () => this.ended(child, this.stderrTail.trim()));
    child.stdin.on("error", (error) => this.log.debug(`the browser's worker: ${error.message}`));
    child.stderr.on(
      "data",
      (data: Buffer) => (this.stderrTail = (this.stderrTail + data.toString()).slice(-2000)),
    );
    createInterface(child.stdout).on("line", (line) =>
      this.onMessage(JSON.parse(line) as BrowserMessage),
    );
    this.send(child, {
      op: "start",
      place: { chromium: this.chromium, working_dir, roots, saves_screenshots: false },
      settings: { refused },
    });
    return child;
  }

  private send(child: ChildProcessWithoutNullStreams, message: object): void {
    if (child.stdin.writable) child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  private onMessage(message: BrowserMessage): void {
    const { id = "", error, observation } = message;
    if (message.op === "failed" && error) {
      const failure = new Failure(error.code, error.message, error.detail);
      if (id) this.waiting.get(id)?.reject(failure);
      else for (const each of this.waiting.values()) each.reject(failure);
    } else if (observation) this.waiting.get(id)?.resolve(observation);
  }

  private ended(child: ChildProcessWithoutNullStreams, why: string): void {
    if (this.child === child) this.child = undefined;
    if (why) this.log.warn(`the browser's worker ended: ${why}`);
    const failure = new Failure(
      "browser.crashed",
      "The browser ended during the action; the next one starts it again",
    );
    for (const each of this.waiting.values()) each.reject(failure);
  }
}
