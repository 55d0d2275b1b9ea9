/**
 * Handles a bash that is at its prompt although the end of its command was not reported: asks for
 * the end, and repairs a broken shell.
 */
import type { BashProcess } from "./bash";
import type { Execution } from "./execution";
import { askLine, repairLine } from "./marks";

/** Milliseconds for bash to answer, to handle an interrupt, and to be repaired. */
const ANSWER_MS = 100;
const CLEARED_MS = 50;
const MENDED_MS = 1000;

export class IdleBash {
  constructor(private readonly bash: () => BashProcess | undefined) {}

  /** If only bash is in the foreground, it may be waiting for a line. */
  look(execution: Execution): void {
    const bash = this.bash();
    if (bash && bash.foreground() === bash.pid) this.ask(execution);
  }

  /** A prompt, or text that looks like one, was printed. Asking is harmless either way. */
  promptSeen(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || !bash) return;
    // The signal came as bash was starting a program and took bash back to its prompt. The
    // half-started process has the foreground and waits for bash forever.
    if (execution.wasSignalled && bash.isStartingProgram()) bash.signal("SIGKILL");
    this.ask(execution);
  }

  /** An interrupt can drop the line that reports the end. This question makes bash report it. */
  private ask(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || execution.end || !bash?.isListening()) return;
    execution.wasAsked = true;
    bash.tell(askLine(execution.nonce, bash.ends));
    // `setImmediate`: first read what has arrived, which may contain the answer.
    execution.later(ANSWER_MS, () => setImmediate(() => this.mend(execution)));
  }

  /**
   * Bash did not answer: its marks are broken, or a signal split the question and bash waits for
   * the other half. An interrupt clears the latter.
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
