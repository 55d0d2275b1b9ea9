/** One command of a shell, from the line that starts it to its end. */
import type { CommandEnd } from "./marks";
import type { CommandOutput } from "./output";

/**
 * Why a wait ended: the command ended, printed nothing for a while (soft), timed out (hard), or
 * bash died before running it (lost).
 */
export type WaitResult = "end" | "soft" | "hard" | "lost";

export class Execution {
  /** The command was sent to bash. */
  isSent = false;
  /** The output of the command has started: what the terminal prints now belongs to it. */
  hasStarted = false;
  /** Marks on the terminal show where the output of the command starts and ends. */
  isMarked = false;
  /** All output of the command has been read, including the end mark. */
  isOutputComplete = false;
  /** The report of bash at the end of the command. The last output may arrive after it. */
  endReport: CommandEnd | undefined;
  /** It is known that bash runs the command. Checked only before a signal is sent. */
  hasBegun = false;
  /** Number of callers that waited for the command so far. */
  answerCount = 0;
  /** Log offset of the first output that no observation contains yet. */
  logStart = 0;
  /** Output of background jobs before the command. */
  background = "";
  /** Note before the output, such as unread output of the previous command. */
  leftByPrevious = "";
  /** The shell's PATH when the command ended. */
  path = "";
  status = -1;
  backgroundPid = -1;
  isOver = false;
  /** The caller cancelled the command; its output is dropped. */
  isAbandoned = false;
  wasSignalled = false;
  wasTypedInto = false;
  /** A line asked bash whether the command has ended. */
  wasAsked = false;
  userTyped = false;
  /** The command is the first of a new bash that replaces an earlier one. */
  isInNewShell = false;
  /** The command ended bash itself. */
  hasEndedShell = false;
  /** `exec` replaced bash by another shell. */
  hasReplacedShell = false;
  /** Bash could not report the status. */
  isStatusUnknown = false;
  whenBegun: (() => void) | undefined;
  /** Resolves when the command is over, however it ended. */
  readonly ended: Promise<void>;
  /**
   * `sent` resolves when the command was sent to bash, `begun` when bash runs it. Both resolve at
   * the latest when the command is over.
   */
  readonly sent: Promise<void>;
  readonly begun: Promise<void>;

  private resolveEnded!: () => void;
  private resolveSent!: () => void;
  private resolveBegun!: () => void;
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
    this.ended = new Promise((resolve) => (this.resolveEnded = resolve));
    this.sent = new Promise((resolve) => (this.resolveSent = resolve));
    this.begun = new Promise((resolve) => (this.resolveBegun = resolve));
  }

  get isWaitedFor(): boolean {
    return this.settle !== undefined;
  }

  markSent(): void {
    this.isSent = true;
    this.resolveSent();
  }

  begin(): void {
    this.hasBegun = true;
    this.resolveBegun();
    this.whenBegun?.();
  }

  /** Seconds since the command was accepted. */
  age(): number {
    return (performance.now() - this.began) / 1000;
  }

  add(data: Buffer): void {
    this.lastOutput = performance.now();
    if (!this.isAbandoned) this.output.add(data);
  }

  /** Calls back after `ms`, unless the command is over by then. */
  callLater(ms: number, callback: () => void): void {
    if (this.isOver) return;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      callback();
    }, ms);
    this.timers.add(timer);
  }

  /** Waits until the command ends, prints nothing for `softMs`, or `hardMs` have passed. */
  async wait(softMs: number | undefined, hardMs: number | undefined): Promise<WaitResult> {
    if (this.isOver) return "end";
    const timers: NodeJS.Timeout[] = [];
    const begin = performance.now();
    try {
      return await new Promise<WaitResult>((resolve, reject) => {
        this.settle = resolve;
        this.reject = reject;
        // Instead of moving the timer on every output, check the time of the last output when it
        // fires.
        const checkSilence = (): void => {
          const left = Math.max(begin, this.lastOutput) + (softMs ?? 0) - performance.now();
          if (left <= 0) resolve("soft");
          else timers.push(setTimeout(checkSilence, left));
        };
        if (softMs !== undefined) timers.push(setTimeout(checkSilence, softMs));
        if (hardMs !== undefined) timers.push(setTimeout(() => resolve("hard"), hardMs));
      });
    } finally {
      this.settle = this.reject = undefined;
      timers.forEach(clearTimeout);
    }
  }

  finish(status: number, backgroundPid: number): void {
    this.status = this.isStatusUnknown ? -1 : status;
    this.backgroundPid = backgroundPid;
    this.close();
    this.settle?.("end");
  }

  /** Bash did not run the command. Returns true if a waiting caller will retry. */
  lose(): boolean {
    this.close();
    if (!this.settle) return false;
    this.settle("lost");
    return true;
  }

  /** Ends the wait, whatever the command does. */
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
    this.resolveSent();
    this.resolveBegun();
    this.resolveEnded();
  }
}
