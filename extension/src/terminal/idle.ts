/**
 * Handles a bash that is at its prompt but has not reported the end of its command: asks bash for
 * the end, and repairs a broken shell.
 */
import type { BashProcess } from "./bash";
import type { Execution } from "./execution";
import { askLine, repairLine } from "./marks";

/** Milliseconds for bash to answer, to handle an interrupt, and to be repaired. */
const ANSWER_MS = 100;
const CLEAR_MS = 50;
const REPAIR_MS = 1000;

export class EndQuery {
  constructor(private readonly bash: () => BashProcess | undefined) {}

  /** Asks for the end if bash itself is in the foreground: bash may be waiting for a line. */
  query(execution: Execution): void {
    const bash = this.bash();
    if (bash && bash.foregroundGroup() === bash.pid) this.ask(execution);
  }

  /** Call after a prompt, or text that looks like a prompt. Asking for the end is harmless. */
  promptSeen(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || !bash) return;
    // The signal arrived while bash was starting a program, and bash returned to its prompt. The
    // half-started process is in the foreground and waits for bash forever.
    if (execution.wasSignalled && bash.isStartingProgram()) bash.signalForeground("SIGKILL");
    this.ask(execution);
  }

  /** An interrupt can make bash drop the line that reports the end, so another line asks for it. */
  private ask(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || execution.endReport || !bash?.isListening()) return;
    execution.wasAsked = true;
    bash.sendLines(askLine(execution.nonce, bash.endFifoPath));
    // `setImmediate`: first read the data that has arrived, which may contain the answer.
    execution.callLater(ANSWER_MS, () => setImmediate(() => this.repair(execution)));
  }

  /**
   * Repairs a bash that did not answer. Either its marks are broken, or a signal split the question
   * and bash waits for the rest. An interrupt clears a split question.
   */
  private repair(execution: Execution): void {
    const bash = this.bash();
    if (execution.isOver || execution.endReport || !bash?.isListening()) return;
    execution.isStatusUnknown = !execution.wasSignalled;
    bash.signalForeground("SIGINT");
    execution.callLater(CLEAR_MS, () =>
      bash.sendLines(repairLine(execution.nonce, bash.endFifoPath)),
    );
    execution.callLater(REPAIR_MS, () => bash.kill());
  }
}
