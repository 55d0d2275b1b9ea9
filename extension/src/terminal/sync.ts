/** Makes sure that bash reads lines again before it is given the next one. */
import type { BashProcess } from "./bash";
import { askLine, findEnd, newNonce } from "./marks";

/** Milliseconds bash has to answer a question, and after an interrupt that clears a torn one. */
const ANSWER_MS = 250;
const CLEARED_MS = 50;
const TRIES = 20;

/**
 * A signal we sent may still be on its way and would tear the next command's line apart: that line
 * waits until bash has answered a question. `settled` is the promise to wait for, while there is
 * something to wait for.
 */
export class PromptSync {
  settled: Promise<void> | undefined;
  private nonce = "";
  private settle: (() => void) | undefined;

  constructor(private readonly bash: () => BashProcess | undefined) {}

  /** Waits for the answer to a line that holds `nonce` and was or will be written by the caller. */
  expect(nonce: string): void {
    this.settled = new Promise((resolve) => (this.settle = resolve));
    this.nonce = nonce;
  }

  begin(): void {
    this.expect(newNonce());
    this.ask(TRIES);
  }

  end(): void {
    this.nonce = "";
    this.settled = undefined;
    this.settle?.();
  }

  /** Whether this was the answer. */
  hear(said: Buffer): boolean {
    if (!this.nonce || !findEnd(said, this.nonce)) return false;
    this.end();
    return true;
  }

  private ask(tries: number): void {
    const nonce = (this.nonce = newNonce());
    const bash = this.bash();
    bash?.tell(askLine(nonce, bash.ends));
    // After what can be read by then was read: the answer may be in it.
    setTimeout(() => setImmediate(() => this.askAgain(nonce, tries - 1)), ANSWER_MS);
  }

  /** No answer: the signal tore the question itself apart, and bash waits for the rest of it. */
  private askAgain(nonce: string, tries: number): void {
    const bash = this.bash();
    if (this.nonce !== nonce || !bash) return;
    if (!tries) return bash.kill();
    // Half-started, and bash waits for it; no command runs now.
    if (bash.foreground() !== bash.pid) bash.signal("SIGKILL");
    else if (bash.isListening()) bash.signal("SIGINT");
    setTimeout(() => {
      if (this.nonce === nonce) this.ask(tries);
    }, CLEARED_MS);
  }
}
