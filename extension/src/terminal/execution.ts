/** One command of a shell, from the line that starts it to its end. */
import type { CommandEnd } from "./marks";
import type { CommandOutput } from "./output";

/** Why a wait is over: the command ended, was silent for a while, is out of time, or bash died before it ran it. */
export type WaitResult = "end" | "soft" | "hard" | "lost";

export class Execution {
  /** Bash was given it. */
  isTold = false;
  /** What is printed from here on is its output. */
  started = false;
  /** Marks on the terminal say where its output starts and ends. */
  isMarked = false;
  /** All it printed has been read, its end mark too. */
  isPrinted = false;
  /** What bash told of its end; its last output may still be on the way. */
  end: CommandEnd | undefined;
  /** Bash is known to run it; looked up only when it matters. */
  isBegun = false;
  answers = 0;
  logStart = 0;
  background = "";
  leftByPrevious = "";
  path = "";
  status = -1;
  backgroundPid = -1;
  isOver = false;
  abandoned = false;
  wasSignalled = false;
  wasTypedInto = false;
  /** Bash was asked for its end once more. */
  wasAsked = false;
  userTyped = false;
  newShell = false;
  shellEnded = false;
  replaced = false;
  statusUnknown = false;
  whenBegun: (() => void) | undefined;
  /** Done once the command is over, however it ended. */
  readonly ended: Promise<void>;
  /** Done once bash was given the command, and once it runs it; in any case when it is over. */
  readonly told: Promise<void>;
  readonly begun: Promise<void>;

  private tellEnded!: () => void;
  private tellTold!: () => void;
  private tellBegun!: () => void;
  private readonly began = performance.now();
  private lastOutput = this.began;
  private readonly timers = new Set<NodeJS.Timeout>();
  private settle: ((reason: WaitResult) => void) | undefined;
  private reject: ((error: Error) => void) | undefined;

  constructor(
    readonly command: string,
    readonly nonce: string,
    readonly output: CommandOutput,
    readonly isRetry: boolean,
    readonly who: "agent" | "user",
  ) {
    this.ended = new Promise((resolve) => (this.tellEnded = resolve));
    this.told = new Promise((resolve) => (this.tellTold = resolve));
    this.begun = new Promise((resolve) => (this.tellBegun = resolve));
  }

  get isWaitedFor(): boolean {
    return this.settle !== undefined;
  }

  tell(): void {
    this.isTold = true;
    this.tellTold();
  }

  begin(): void {
    this.isBegun = true;
    this.tellBegun();
    this.whenBegun?.();
  }

  /** Seconds since it was sent. */
  age(): number {
    return (performance.now() - this.began) / 1000;
  }

  add(data: Buffer): void {
    this.lastOutput = performance.now();
    if (!this.abandoned) this.output.add(data);
  }

  /** Calls back unless the command is over by then. */
  later(ms: number, callback: () => void): void {
    if (this.isOver) return;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      callback();
    }, ms);
    this.timers.add(timer);
  }

  /** Until the command ends, prints nothing for `softMs`, or `hardMs` have passed. */
  async wait(softMs: number | undefined, hardMs: number | undefined): Promise<WaitResult> {
    if (this.isOver) return "end";
    const timers: NodeJS.Timeout[] = [];
    const begin = performance.now();
    try {
      return await new Promise<WaitResult>((resolve, reject) => {
        this.settle = resolve;
        this.reject = reject;
        // The timer is not moved for every piece of output: it looks when the last one was.
        const look = (): void => {
          const left = Math.max(begin, this.lastOutput) + (softMs ?? 0) - performance.now();
          if (left <= 0) resolve("soft");
          else timers.push(setTimeout(look, left));
        };
        if (softMs !== undefined) timers.push(setTimeout(look, softMs));
        if (hardMs !== undefined) timers.push(setTimeout(() => resolve("hard"), hardMs));
      });
    } finally {
      this.settle = this.reject = undefined;
      timers.forEach(clearTimeout);
    }
  }

  finish(status: number, backgroundPid: number): void {
    this.status = this.statusUnknown ? -1 : status;
    this.backgroundPid = backgroundPid;
    this.close();
    this.settle?.("end");
  }

  /** Bash died before it ran this. True if the one who waits for it will try again. */
  lose(): boolean {
    this.close();
    if (!this.settle) return false;
    this.settle("lost");
    return true;
  }

  /** Lets the one who waits go, whatever the command does. */
  release(): void {
    this.settle?.("hard");
  }

  fail(error: Error): void {
    this.close();
    this.reject?.(error);
  }

  close(): void {
    this.isOver = true;
    this.timers.forEach(clearTimeout);
    this.timers.clear();
    this.tellTold();
    this.tellBegun();
    this.tellEnded();
  }
}
