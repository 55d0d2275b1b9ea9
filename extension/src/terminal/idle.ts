/** Bash at its prompt although no end of its command came: asks for it, and mends what is broken. */
import type { BashProcess } from "./bash";
import type { Execution } from "./execution";
import { askLine, repairLine } from "./marks";

/** Milliseconds bash has to answer, to get over an interrupt, and to be mended. */
const ANSWER_MS = 100;
const CLEARED_MS = 50;
const MENDED_MS = 1000;

export class IdleBash {
  constructor(private readonly bash: () => BashProcess | undefined) {}

  /** If bash has the terminal to itself it may be waiting for a line. */
  look(execution: Execution): void {
    const bash = this.bash();
    if (bash && bash.foreground() === bash.pid) this.ask(execution);
  }

  /** A prompt was printed, or something that looks like one; then asking does no harm. */
  promptSeen(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || !bash) return;
    // The signal came as bash was starting a program and took bash back to its prompt. The
    // half-started process has the foreground and waits for a word from bash for ever.
    if (execution.wasSignalled && bash.isStartingProgram()) bash.signal("SIGKILL");
    this.ask(execution);
  }

  /** Interrupts can cost the line that tells the end: this one then tells it. */
  private ask(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || execution.end || !bash?.isListening()) return;
    execution.wasAsked = true;
    bash.tell(askLine(execution.nonce, bash.ends));
    // After what can be read by then was read: the answer may be in it.
    execution.later(ANSWER_MS, () => setImmediate(() => this.mend(execution)));
  }

  /**
   * Bash did not answer: its marks are broken, or a signal tore the question apart and bash waits
   * for the other half of it. An interrupt clears the latter.
   */
  private mend(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || execution.end || !bash?.isListening()) return;
    execution.statusUnknown = !execution.wasSignalled;
    bash.signal("SIGINT");
    execution.later(CLEARED_MS, () => bash.tell(repairLine(execution.nonce, bash.ends)));
    execution.later(MENDED_MS, () => bash.kill());
  }
}
