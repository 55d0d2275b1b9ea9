/**
 * A shell on a pseudo-terminal: knows exactly when a command ended and loses none of its output.
 *
 * `marks` has the protocol with bash, `bash` the process, `terminal_reader` sorts what bash prints,
 * `output` collects output for answers, `inspection` asks bash about itself, and `interrupts`,
 * `idle` and `sync` handle commands that must end early. This module runs commands one at a time,
 * each an `Execution` from the line that starts it to its end, with any number of answers.
 */
import * as fs from "node:fs";
import { within } from "../common/deadline";
import { Emitter } from "../common/emitter";
import { Failure } from "../common/failure";
import type { Log } from "../common/log";
import type { ObservationBody } from "../protocol";
import { ShellObservations, type RunCommand } from "./observations";
import { BashProcess, type PtyModule } from "./bash";
import { Execution } from "./execution";
import { EndQuery } from "./idle";
import { ShellInspection } from "./inspection";
import { Interrupts } from "./interrupts";
import { DiskLog } from "./disk_log";
import {
  commandLine,
  findEnd,
  HIDDEN_PROMPT,
  initLine,
  isNoTerminalError,
  KEY_NAME,
  newNonce,
  restoreModesLine,
  terminalLine,
  type CommandEnd,
} from "./marks";
import * as notes from "./notes";
import { CommandOutput } from "./output";
import { brokenPremise, type ShellPremise, type ShellState } from "./premise";
import { PromptSync } from "./sync";
import { TerminalReader } from "./terminal_reader";

const MAX_BUFFER_BYTES = 1 << 20;
/** Milliseconds to wait for the mark of a command that has ended: a signal may delay the mark. */
const LATE_MARK_MS = 100;
/** Statuses of a program that was stopped and is now a job: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU. */
const STOPPED_STATUSES = new Set([19, 20, 21, 22].map((number) => 128 + number));
const START_MS = 10_000;
const EMPTY: Buffer = Buffer.alloc(0);

export interface ShellSettings {
  /** A private directory for channels and logs. */
  directory: string;
  workingDir: string;
  env: Record<string, string>;
  /** Those of `env` that are only for this shell. */
  added?: Readonly<Record<string, string>>;
  softSeconds: number;
  outputLimit: number;
  logLimit: number;
  /** An earlier shell with the same name was stopped, and the agent must be informed. */
  isReplacement?: boolean;
}

export interface OutputPiece {
  offset: number;
  data: Buffer;
}

/** An event for the terminal that shows the shell. */
export type TerminalEvent =
  | { is: "command"; text: string; who: "agent" | "user" }
  | { is: "output"; data: Buffer }
  | { is: "end"; status: number }
  | { is: "closed" };

/**
 * A bash whose directory, variables, functions, options and jobs survive from one command to the
 * next. Cancelling `run` interrupts the command and leaves the shell usable. If bash itself ends,
 * the next command starts a new bash, and its observation says so. Closing kills bash and the
 * running command.
 */
export class BashShell {
  readonly onOutput: Emitter<OutputPiece>;
  readonly onShown: Emitter<TerminalEvent>;
  private readonly log: DiskLog;
  private readonly observations: ShellObservations;
  private readonly terminal: TerminalReader;
  private readonly inspection = new ShellInspection();
  private readonly sync = new PromptSync(() => this.bash);
  private readonly endQuery = new EndQuery(() => this.bash);
  private readonly interrupts = new Interrupts(() => this.bash, this.endQuery);
  private env: Record<string, string>;
  private directory: string;
  private bash: BashProcess | undefined;
  private execution: Execution | undefined;
  /** A command that ended while no caller waited for it. */
  private unread: Execution | undefined;
  private turn: Promise<void> = Promise.resolve();
  private status = 0;
  private options = "";
  private hasStartedBefore = false;
  /** Nothing but the next command will print, so the command needs no marks. */
  private isCalm = false;
  /** After a signal or a stopped job, this bash may print at any later prompt. */
  private wasDisturbed = false;
  /** The terminal modes must be restored before the next command. */
  private mustRestoreModes = false;
  /** Data from the channel that is not yet interpreted. */
  private buffer = EMPTY;
  private isClosed = false;
  private size = { columns: 120, rows: 40 };

  constructor(
    readonly name: string,
    private readonly pty: PtyModule,
    private readonly settings: ShellSettings,
    logger: Log,
    logFile: string,
  ) {
    this.onOutput = new Emitter((error) => logger.error("a listener failed", error));
    this.onShown = new Emitter((error) => logger.error("a listener failed", error));
    this.log = new DiskLog(logFile, settings.logLimit);
    this.observations = new ShellObservations(name, this.log, settings.softSeconds);
    this.terminal = new TerminalReader(this.log, {
      onOutput: (offset, data) => {
        this.onOutput.fire({ offset, data });
        this.onShown.fire({ is: "output", data });
      },
      onComplete: (execution) => {
        if (execution.endReport) this.finish(execution, execution.endReport);
      },
      onPrompt: (execution) => this.endQuery.promptSeen(execution),
    });
    this.env = settings.env;
    this.directory = settings.workingDir;
    this.hasStartedBefore = settings.isReplacement ?? false;
  }

  get isRunning(): boolean {
    return this.execution !== undefined;
  }

  get cwd(): string {
    return this.directory;
  }

  async run(
    command: RunCommand,
    signal?: AbortSignal,
    who: "agent" | "user" = "agent",
  ): Promise<ObservationBody<"run">> {
    this.ensureOpen();
    const text = command.command;
    if (command.is_input || !text.trim()) return this.continueCommand(command, signal);
    if (!this.execution && KEY_NAME.test(text)) return this.answerIdle(command);
    if (command.queue) return this.runInTurn(() => this.runNew(command, signal, who), signal);
    for (let running = this.execution; running; running = this.execution) {
      // Wait for a command of the user: the agent does not know that command and cannot end it.
      const willEnd = running.isAbandoned || running.who === "user";
      if (!willEnd || !(await endsInTime(running, command.timeout)))
        return this.observations.refused(command, running, this.directory);
    }
    return this.runNew(command, signal, who);
  }

  /**
   * Asks bash about itself and what `names` mean. Undefined while a command runs, or before bash
   * has started. `run` then checks the premise of the next command.
   */
  async inspect(names: readonly string[]): Promise<ShellState | undefined> {
    if (!this.bash || this.execution || this.sync.settled) return undefined;
    return this.inspection.ask(this.bash, names);
  }

  async interrupt(kill: boolean): Promise<boolean> {
    const { execution } = this;
    if (!execution) return false;
    if (kill) await this.interrupts.kill(execution);
    else await this.interrupts.press(execution, "C-c");
    return true;
  }

  /** Sends the user's keys to the running program. Returns false if nothing runs. */
  typeAsUser(data: string): boolean {
    if (!this.execution || !this.bash) return false;
    this.execution.userTyped = true;
    this.execution.wasTypedInto = true;
    if (data === "\x03") {
      void this.interrupts.press(this.execution, "C-c");
      return true;
    }
    this.bash.type(Buffer.from(data));
    return true;
  }

  resize(columns: number, rows: number): void {
    this.size = { columns, rows };
    this.bash?.resize(columns, rows);
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    const { execution, bash } = this;
    this.execution = this.bash = undefined;
    execution?.fail(shellClosed(this.name));
    this.sync.end();
    this.inspection.end();
    bash?.end();
    this.log.close();
    this.onShown.fire({ is: "closed" });
  }

  // Running commands --------------------------------------------------------------------------

  private async runInTurn<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const mine = this.turn.then(async () => {
      while (this.execution) await this.execution.ended;
      if (signal?.aborted) throw cancelled();
      return work();
    });
    this.turn = mine.then(
      () => undefined,
      () => undefined,
    );
    return mine;
  }

  private async runNew(
    command: RunCommand,
    signal: AbortSignal | undefined,
    who: "agent" | "user",
    isRetry = false,
  ): Promise<ObservationBody<"run">> {
    const nonce = newNonce();
    const limit = command.output_limit ?? this.settings.outputLimit;
    const execution = new Execution(command.command, nonce, new CommandOutput(limit), isRetry, who);
    this.execution = execution; // from here on other commands are refused, also while bash starts
    let bash: BashProcess;
    let line: string;
    try {
      bash = this.bash && !this.sync.settled ? this.bash : await this.readyBash(execution);
      if (signal?.aborted) throw cancelled();
      if (command.premise) await this.ensurePremise(bash, command.premise);
      line = commandLine(command.command, nonce, {
        ends: bash.endFifoPath,
        status: this.status,
        options: this.options,
        isMarked: !this.isCalm,
        cwd: command.cwd,
      });
    } catch (error) {
      if ((this.execution as Execution | undefined) === execution) this.execution = undefined;
      execution.close();
      throw error;
    }
    if (this.unread) {
      const rest = this.unread.output.take(true);
      execution.leftByPrevious = notes.leftByPrevious(this.unread.status, rest.head, rest.tail);
      this.unread = undefined;
    }
    execution.logStart = this.log.endOffset;
    execution.isMarked = !this.isCalm;
    if (this.isCalm) {
      bash.drain(); // output of background processes since the last command
      this.terminal.startOutput(execution, this.options);
    }
    if (!isRetry) this.onShown.fire({ is: "command", text: command.command, who });
    bash.sendLines((this.mustRestoreModes ? restoreModesLine() : "") + line);
    this.mustRestoreModes = false;
    execution.markSent();
    this.watchForExec(execution);
    return this.answer(command, execution, signal, "", who);
  }

  private async ensurePremise(bash: BashProcess, premise: ShellPremise): Promise<void> {
    const broken = brokenPremise(premise, await this.inspection.ask(bash, premise.names));
    this.ensureOpen();
    if (broken !== undefined)
      throw new Failure(
        "consent.denied",
        `'run' was not done: since a rule allowed it, the shell has changed (${broken}); send it again`,
      );
  }

  /** Waits until bash reads command lines. Starts bash if needed. */
  private async readyBash(execution: Execution): Promise<BashProcess> {
    while (!this.bash || this.sync.settled) {
      if (this.sync.settled) await this.sync.settled;
      else await this.start(execution);
      this.ensureOpen();
    }
    return this.bash;
  }

  private async start(execution: Execution): Promise<void> {
    execution.isInNewShell = this.hasStartedBefore;
    if (!isDirectory(this.directory)) this.directory = this.settings.workingDir;
    this.terminal.reset();
    this.buffer = EMPTY;
    [this.status, this.options] = [0, ""];
    this.isCalm = this.wasDisturbed = false;
    const ended: { status?: number } = {};
    const bash: BashProcess = await BashProcess.start(
      this.pty,
      {
        directory: this.settings.directory,
        cwd: this.directory,
        env: { ...this.env, PWD: this.directory, PS1: HIDDEN_PROMPT },
        ...this.size,
      },
      {
        output: (data) => this.readTerminal(data),
        onMessage: (data) => this.onMessage(data),
        ended: (status) => {
          ended.status = status;
          this.bashEnded(status);
        },
      },
    );
    if (this.isClosed) {
      bash.kill();
      throw shellClosed(this.name);
    }
    this.bash = bash;
    const nonce = newNonce();
    this.sync.expect(nonce);
    bash.sendLines(initLine(nonce, bash.endFifoPath));
    await within(
      this.sync.settled ?? Promise.resolve(),
      START_MS,
      () =>
        new Failure("sandbox.start_failed", `bash did not get ready within ${START_MS / 1000} s`),
    ).catch((error: unknown) => {
      bash.kill();
      throw error;
    });
    if (ended.status !== undefined)
      throw new Failure("sandbox.start_failed", `bash ended at once, with status ${ended.status}`);
    this.hasStartedBefore = true;
    bash.drain(); // output until here belongs to no command
    this.terminal.hasBashStarted = true;
  }

  private async continueCommand(
    command: RunCommand,
    signal?: AbortSignal,
  ): Promise<ObservationBody<"run">> {
    const { execution } = this;
    if (!execution) return this.answerIdle(command);
    let key = "";
    if (command.is_input && command.command) {
      if (KEY_NAME.test(command.command)) {
        key = command.command;
        await this.interrupts.press(execution, key);
      } else {
        await execution.sent;
        const enter = command.command.endsWith("\n") ? "" : "\n";
        execution.wasTypedInto = true;
        if (!execution.isOver) this.bash?.type(Buffer.from(command.command + enter));
      }
    }
    if (execution.isWaitedFor) return this.observations.forAnother(command, this.directory);
    return this.answer(command, execution, signal, key, "agent");
  }

  private answerIdle(command: RunCommand): ObservationBody<"run"> {
    const { unread } = this;
    if (unread) {
      this.unread = undefined;
      return this.observations.done(command, unread, this.directory);
    }
    const typed = command.command.trim() !== "";
    const text = typed ? notes.NOTHING_TO_TYPE_INTO : notes.NOTHING_TO_READ;
    return this.observations.idle(command, text, this.directory);
  }

  private async answer(
    command: RunCommand,
    execution: Execution,
    signal: AbortSignal | undefined,
    key: string,
    who: "agent" | "user",
  ): Promise<ObservationBody<"run">> {
    const soft = command.blocking || who === "user" ? undefined : this.settings.softSeconds * 1000;
    const hard = command.timeout === undefined ? undefined : command.timeout * 1000;
    execution.answerCount += 1;
    const abandon = (): void => {
      this.interrupts.abandon(execution);
      execution.release();
    };
    signal?.addEventListener("abort", abandon, { once: true });
    const reason = await execution.wait(soft, hard).finally(() => {
      signal?.removeEventListener("abort", abandon);
    });
    if (signal?.aborted) {
      await execution.ended;
      throw cancelled();
    }
    if (reason === "lost") return this.runNew(command, signal, who, true);
    if (reason === "end" || execution.isOver) {
      if (this.unread === execution) this.unread = undefined;
      return this.observations.done(command, execution, this.directory, key);
    }
    if (reason === "soft") this.endQuery.query(execution);
    return this.observations.running(command, execution, reason, this.directory);
  }

  // Output of bash ----------------------------------------------------------------------------

  /** Handles ends of commands and answers to questions; other data on the channel is dropped. */
  private onMessage(data: Buffer): void {
    const message = this.buffer.length ? Buffer.concat([this.buffer, data]) : data;
    this.buffer = EMPTY;
    this.inspection.feed(message);
    if (this.sync.feed(message)) return;
    const { execution } = this;
    if (execution?.endReport) return; // a second answer to the same question
    const end = execution && findEnd(message, execution.nonce);
    if (end) this.handleEnd(execution, end);
    else if (execution || this.sync.settled || this.inspection.isOpen)
      this.buffer = message.subarray(-MAX_BUFFER_BYTES);
  }

  private handleEnd(execution: Execution, end: CommandEnd): void {
    execution.endReport = end;
    if (!execution.isOutputComplete) {
      this.bash?.drain(); // the output of the command is in the terminal by now
      if (this.terminal.hasRest && !execution.isOver) this.readTerminal(EMPTY); // the rest can be interpreted now
    }
    if (execution.isOver) return;
    if (execution.isOutputComplete || !(execution.isMarked || end.isMarked))
      this.finish(execution, end);
    else execution.callLater(LATE_MARK_MS, () => this.finish(execution, end));
  }

  private readTerminal(data: Buffer): void {
    this.terminal.take(data, this.execution, this.options);
  }

  private finish(execution: Execution, end: CommandEnd): void {
    const { bash } = this;
    if (!execution.isOutputComplete) this.terminal.flush(execution);
    if (end.status === 1 && bash && !bash.hasTerminal()) {
      bash.sendLines(terminalLine());
      if (wasRefused(execution)) {
        this.terminal.forgetBackground();
        this.execution = undefined;
        if (execution.lose()) return;
      }
    }
    [this.status, this.options] = [end.status, end.options];
    this.directory = end.cwd || this.directory;
    execution.path = end.path;
    // A program that was interrupted or failed may have changed the terminal modes, and we cannot
    // check them: let bash restore them before the next command.
    this.mustRestoreModes ||=
      execution.wasSignalled ||
      execution.wasTypedInto ||
      end.status > 128 ||
      /\b(stty|tput|reset)\b/.test(execution.command);
    if (execution.wasSignalled || execution.wasAsked) {
      this.wasDisturbed = true;
      this.sync.begin();
    } else if (STOPPED_STATUSES.has(end.status)) {
      this.wasDisturbed = true; // bash prints a notice about the stopped job, at some later prompt
    }
    this.isCalm = end.isCalm && !this.wasDisturbed;
    this.endExecution(execution, end.status, end.backgroundPid);
  }

  private endExecution(execution: Execution, status: number, backgroundPid: number): void {
    this.execution = undefined;
    if (!execution.isWaitedFor && !execution.isAbandoned) this.unread = execution;
    execution.finish(status, backgroundPid);
    this.onShown.fire({ is: "end", status: execution.status });
  }

  private bashEnded(status: number): void {
    const { bash } = this;
    this.bash = undefined;
    this.sync.end();
    this.inspection.end();
    const { execution } = this;
    this.terminal.flush(execution?.hasStarted && !this.isClosed ? execution : undefined);
    if (this.isClosed) return;
    [this.status, this.options] = [0, ""];
    if (!execution) return;
    if (!execution.isSent) return; // `start` reports the error or starts another bash
    if (bash && neverBegan(execution, bash)) {
      this.execution = undefined;
      if (execution.lose()) return; // a new bash runs the command
    }
    execution.hasEndedShell = true;
    this.endExecution(execution, execution.hasReplacedShell ? 0 : status, -1);
  }

  /**
   * A command may replace bash by another shell (`exec zsh`), which would wait at its prompt
   * forever. That shell is killed. The next bash takes over its environment and directory.
   */
  private watchForExec(execution: Execution): void {
    if (/\bexec\b/.test(execution.command))
      for (const ms of [100, 500, 2000]) execution.callLater(ms, () => this.takeOver(execution));
  }

  private takeOver(execution: Execution): void {
    const { bash } = this;
    if (!bash?.isOtherShell()) return;
    this.env = bash.environment() ?? this.env;
    this.directory = bash.directory() ?? this.directory;
    execution.hasReplacedShell = true;
    bash.kill();
  }

  private ensureOpen(): void {
    if (this.isClosed) throw shellClosed(this.name);
  }
}

/** Whether bash died before it had read the line, so that the command can safely run again. */
function neverBegan(execution: Execution, bash: BashProcess): boolean {
  return bash.leftLinesUnread && !(execution.wasAsked || execution.hasBegun || execution.isRetry);
}

/** Whether the command got no terminal from bash, because an earlier command had closed it. */
function wasRefused(execution: Execution): boolean {
  if (execution.isRetry) return false;
  return !execution.hasStarted || isNoTerminalError(execution.output.beginning);
}

async function endsInTime(running: Execution, seconds: number | undefined): Promise<boolean> {
  if (seconds === undefined) await running.ended;
  else await within(running.ended, seconds * 1000, cancelled).catch(() => undefined);
  return running.isOver;
}

function isDirectory(path: string): boolean {
  return fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

export function cancelled(): Failure {
  return new Failure("action.cancelled", "The command was cancelled and interrupted");
}

export function shellClosed(name: string): Failure {
  return new Failure(
    "shell.closed",
    `the shell '${name}' was closed; use another, or make a new one`,
  );
}
