/** Asks bash about its directory and options, and about the meaning of names. */
import { within } from "../common/deadline";
import { Failure } from "../common/failure";
import type { BashProcess } from "./bash";
import { findFacts, inspectLine, newNonce, type ShellFacts } from "./marks";
import { UNCLEAR, type ShellState } from "./premise";

/** Milliseconds for bash to answer. */
const INSPECT_MS = 5000;

/** The questions to one shell's bash, one at a time. */
export class ShellInspection {
  private current: { feed: (message: Buffer) => void; end: () => void } | undefined;
  private last: Promise<unknown> = Promise.resolve();

  /** Whether bash has been asked and has not answered yet. */
  get isOpen(): boolean {
    return this.current !== undefined;
  }

  /** Resolves to `UNCLEAR` if bash ends, does not answer in time, or the answer is unclear. */
  ask(bash: BashProcess, names: readonly string[]): Promise<ShellState> {
    const asked = this.last.then(async (): Promise<ShellState> => {
      const nonce = newNonce();
      const answered = new Promise<ShellFacts | typeof UNCLEAR>((resolve) => {
        const end = (): void => resolve(UNCLEAR);
        const feed = (data: Buffer): void => {
          const facts = findFacts(data, names, nonce);
          if (facts !== undefined) resolve(facts);
        };
        this.current = { feed, end };
      });
      bash.sendLines(inspectLine(names, nonce, bash.endFifoPath));
      const late = (): Failure => new Failure("shell.closed", "bash does not answer");
      const facts = await within(answered, INSPECT_MS, late).catch((): typeof UNCLEAR => UNCLEAR);
      this.current = undefined;
      return facts === UNCLEAR ? UNCLEAR : { ...facts, directory: bash.directory() ?? "" };
    });
    this.last = asked;
    return asked;
  }

  /** Handles data from the channel, which may contain the answer. */
  feed(message: Buffer): void {
    this.current?.feed(message);
  }

  /** Call when bash has ended: the open question gets no answer. */
  end(): void {
    this.current?.end();
  }
}
