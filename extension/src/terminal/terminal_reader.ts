/** Sorts terminal output: output of the running command, output of background jobs, prompts. */
import type { DiskLog } from "./disk_log";
import type { Execution } from "./execution";
import {
  endsWithPrompt,
  findMark,
  heldBackBytes,
  unfinishedMarkBytes,
  withoutMarks,
  withoutPrompt,
  withoutPrompts,
} from "./marks";

const MAX_BACKGROUND_BYTES = 64 << 10;
/** Milliseconds for which text that looks like a prompt must be the last output. */
const PROMPT_MS = 20;
const EMPTY: Buffer = Buffer.alloc(0);

export interface TerminalListeners {
  /** Output was logged at `offset`. */
  onOutput(offset: number, data: Buffer): void;
  /** The command's end mark was read; data after the mark is handled afterwards. */
  onComplete(execution: Execution): void;
  /** A command's output seems to end in a prompt. */
  onPrompt(execution: Execution): void;
}

/** Reads one shell's terminal: logs output, passes it on, and finds the end of a command. */
export class TerminalReader {
  /** Bash has started. Earlier output is dropped. */
  hasBashStarted = false;
  /** Output that is not yet interpreted, such as the beginning of a mark. */
  private rest = EMPTY;
  /** Output since the last command, such as that of background jobs. */
  private background = EMPTY;

  constructor(
    private readonly log: DiskLog,
    private readonly listeners: TerminalListeners,
  ) {}

  get hasRest(): boolean {
    return this.rest.length > 0;
  }

  /** Forgets the output of the previous bash. */
  reset(): void {
    this.rest = this.background = EMPTY;
    this.hasBashStarted = false;
  }

  forgetBackground(): void {
    this.background = EMPTY;
  }

  /** Treats output from here on as the command's. `options`: bash's flags, such as `himBH`. */
  startOutput(execution: Execution, options: string): void {
    execution.hasStarted = true;
    execution.logStart = this.log.endOffset;
    // With `set -v` or `-x` bash echoes our own lines, which are not background output.
    if (!/[vx]/.test(options)) execution.background = this.background.toString("utf8");
    this.background = EMPTY;
  }

  /** Handles output that was printed while `execution` was the shell's command. */
  take(chunk: Buffer, execution: Execution | undefined, options: string): void {
    let data = chunk;
    if (this.rest.length) {
      data = Buffer.concat([this.rest, chunk]);
      this.rest = EMPTY;
    }
    if (!execution?.isSent || execution.isOutputComplete) return this.idleOutput(data);
    const { nonce } = execution;
    let mark = findMark(data, nonce);
    if (!execution.hasStarted) {
      if (!mark) return this.idleOutput(this.holdBack(data, heldBackBytes(data, nonce)));
      this.idleOutput(data.subarray(0, mark.before));
      this.startOutput(execution, options);
      if (mark.isStart) {
        data = data.subarray(mark.after);
        mark = findMark(data, nonce);
      }
    }
    if (!mark) {
      this.emit(execution, this.holdBack(data, heldBackBytes(data, nonce)));
      if (endsWithPrompt(this.rest))
        execution.callLater(PROMPT_MS, () => {
          if (endsWithPrompt(this.rest)) this.listeners.onPrompt(execution);
        });
      return;
    }
    const { endReport: end } = execution;
    if (mark.wasAsked && !end) {
      // Bash reports the end before it prints this mark, so the report is about to arrive. If the
      // command's own line sent the report, text that looks like a prompt is output of the command.
      this.rest = data;
      return;
    }
    const commandOutput = data.subarray(0, mark.before);
    this.emit(execution, end?.wasAsked ? withoutPrompt(commandOutput) : commandOutput);
    execution.isOutputComplete = true;
    this.listeners.onComplete(execution);
    this.idleOutput(data.subarray(mark.after));
  }

  /**
   * Ends the wait for the rest of a mark: bytes held back become output of `execution`. Without an
   * execution they are dropped.
   */
  flush(execution: Execution | undefined): void {
    const { rest } = this;
    this.rest = EMPTY;
    if (execution && rest.length) this.emit(execution, rest);
  }

  /** `data` without its last `size` bytes, which are kept for the next chunk. */
  private holdBack(data: Buffer, size: number): Buffer {
    if (!size) return data;
    this.rest = Buffer.concat([data.subarray(data.length - size), this.rest]);
    return data.subarray(0, data.length - size);
  }

  private emit(execution: Execution, data: Buffer): void {
    // Bash prints a prompt for each signal that it gets at its prompt.
    const shown = execution.wasSignalled ? withoutPrompts(data) : data;
    if (!shown.length) return;
    execution.add(shown);
    this.record(shown);
  }

  private record(data: Buffer): void {
    const offset = this.log.endOffset;
    this.log.append(data);
    this.listeners.onOutput(offset, data);
  }

  /** Output while no command runs: prompts, which are dropped, and output of background jobs. */
  private idleOutput(data: Buffer): void {
    if (!data.length) return;
    const ready = withoutMarks(this.holdBack(data, unfinishedMarkBytes(data)));
    if (!ready.length || !this.hasBashStarted) return;
    this.background = Buffer.concat([this.background, ready]).subarray(-MAX_BACKGROUND_BYTES);
    this.record(ready);
  }
}
