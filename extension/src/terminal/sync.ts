/** Ensures that bash reads command lines again before the next command line is sent. */
import type { BashProcess } from "./bash";
import { askLine, findEnd, newNonce } from "./marks";

/**
 * Milliseconds for bash to answer a question, and to handle the interrupt that clears a split
 * question.
 */
const ANSWER_MS = 250;
const CLEAR_MS = 50;
const MAX_TRIES = 20;

/**
 * A signal that we sent may still be pending and would split the next command's line. So the next
 * line waits until bash has answered a question. `settled` is the promise to wait for, if any.
 */
export class PromptSync {
  settled: Promise<void> | undefined;
  private nonce = "";
  private settle: (() => void) | undefined;

  constructor(private readonly bash: () => BashProcess | undefined) {}

  /** Expects the answer to a line with `nonce`. The caller writes that line. */
  expect(nonce: string): void {
    this.settled = new Promise((resolve) => (this.settle = resolve));
    this.nonce = nonce;
  }

  begin(): void {
    this.expect(newNonce());
    this.ask(MAX_TRIES);
  }

  end(): void {
    this.nonce = "";
    this.settled = undefined;
    this.settle?.();
  }

  /** Returns true if `data` contains the expected answer. */
  feed(data: Buffer): boolean {
    if (!this.nonce || !findEnd(data, this.nonce)) return false;
    this.end();
    return true;
  }

  private ask(tries: number): void {
    const nonce = (this.nonce = newNonce());
    const bash = this.bash();
    bash?.sendLines(askLine(nonce, bash.endFifoPath));
    // `setImmediate`: first read the data that has arrived, which may contain the answer.
    setTimeout(() => setImmediate(() => this.askAgain(nonce, tries - 1)), ANSWER_MS);
  }

  /** No answer: the signal split the question itself, and bash waits for the rest of it. */
  private askAgain(nonce: string, tries: number): void {
    const bash = this.bash();
    if (this.nonce !== nonce || !bash) return;
    if (!tries) return bash.kill();
    // No command runs now, so this is a half-started process that bash waits for.
    if (bash.foregroundGroup() !== bash.pid) bash.signalForeground("SIGKILL");
    else if (bash.isListening()) bash.signalForeground("SIGINT");
    setTimeout(() => {
      if (this.nonce === nonce) this.ask(tries);
    }, CLEAR_MS);
  }
}
