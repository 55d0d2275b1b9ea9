/**
 * A shell in an ordinary VS Code terminal, driven by VS Code's shell integration. Used where our
 * own terminal is not available.
 *
 * This shell is slower, waits for the user's start-up files, and is less exact: some exit codes are
 * unknown (-1), input and keys reach any program that reads the terminal, and a command interrupts
 * a program that the user runs there.
 */
import * as vscode from "vscode";
import { within } from "../common/deadline";
import type { Disposable } from "../common/disposables";
import { Emitter } from "../common/emitter";
import { Failure } from "../common/failure";
import type { Log } from "../common/log";
import { isAlive } from "../common/process_alive";
import type { ObservationBody } from "../protocol";
import { ShellObservations, type RunCommand } from "./observations";
import { Execution } from "./execution";
import { DiskLog } from "./disk_log";
import { KEY_NAME, newNonce, quoted } from "./marks";
import * as notes from "./notes";
import { CommandOutput } from "./output";
import { IntegrationOutput } from "./integration_output";
import { MARK_VARIABLE } from "./processes";
import { cancelled, shellClosed, type OutputPiece } from "./shell";
import type { AgentShell, ShellRequest } from "./shells";

/** Milliseconds for a shell to start, including its start-up files. */
const START_MS = 20_000;
/** Milliseconds for a shell to react to an interrupt, and for VS Code to report its end. */
const INTEGRATION_MS = 1000;
/** Resets a terminal. VS Code sends it before the output of a shell that replaces another. */
const RESET = "\u001bc";

export class IntegratedShell implements AgentShell {
  readonly onOutput: Emitter<OutputPiece>;
  private readonly log: DiskLog;
  private readonly observations: ShellObservations;
  private readonly listening: Disposable;
  private terminal: vscode.Terminal | undefined;
  private processId: number | undefined;
  private execution: Execution | undefined;
  private unread: Execution | undefined;
  private directory: string;
  private hasStartedBefore = false;
  private isClosed = false;

  constructor(
    private readonly request: ShellRequest,
    logger: Log,
  ) {
    this.onOutput = new Emitter((error) => logger.error("a listener failed", error));
    this.log = new DiskLog(request.logFile, request.settings.logLimit);
    this.observations = new ShellObservations(request.name, this.log, request.settings.softSeconds);
    this.directory = request.settings.workingDir;
    this.hasStartedBefore = request.settings.isReplacement ?? false;
    this.listening = vscode.window.onDidCloseTerminal((terminal) => {
      if (terminal === this.terminal) this.lost(terminal.exitStatus?.code ?? -1);
    });
  }

  get name(): string {
    return this.request.name;
  }

  get cwd(): string {
    return this.terminal?.shellIntegration?.cwd?.fsPath ?? this.directory;
  }

  get isRunning(): boolean {
    return this.execution !== undefined;
  }

  async run(command: RunCommand, signal?: AbortSignal): Promise<ObservationBody<"run">> {
    this.ensureOpen();
    if (command.is_input || !command.command.trim()) return this.continueCommand(command, signal);
    while (this.execution) {
      if (!command.queue && !this.execution.isAbandoned)
        return this.observations.refused(command, this.execution, this.cwd);
      await this.execution.ended;
      if (signal?.aborted) throw cancelled();
    }
    return this.runNew(command, signal);
  }

  interrupt(kill: boolean): Promise<boolean> {
    const running = this.execution !== undefined;
    if (running && kill) this.terminal?.dispose();
    else if (running) this.press("C-c");
    return Promise.resolve(running);
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.listening.dispose();
    this.execution?.fail(shellClosed(this.name));
    this.execution = undefined;
    this.terminal?.dispose();
    this.log.close();
  }

  private async runNew(command: RunCommand, signal?: AbortSignal): Promise<ObservationBody<"run">> {
    const limit = command.output_limit ?? this.request.settings.outputLimit;
    const execution = new Execution(
      command.command,
      newNonce(),
      new CommandOutput(limit),
      false,
      "agent",
    );
    this.execution = execution;
    try {
      const integration = await this.ready(execution);
      if (signal?.aborted) throw cancelled();
      execution.logStart = this.log.endOffset;
      execution.begin();
      const changeDirectory = command.cwd ? `cd -- ${quoted(command.cwd)} && ` : "";
      void this.follow(execution, integration, changeDirectory + command.command);
    } catch (error) {
      this.execution = undefined;
      execution.close();
      throw error;
    }
    return this.answer(command, execution, signal);
  }

  private async ready(execution: Execution): Promise<vscode.TerminalShellIntegration> {
    if (this.terminal?.shellIntegration) return this.terminal.shellIntegration;
    execution.isInNewShell = this.hasStartedBefore;
    if (!this.hasStartedBefore) execution.leftByPrevious = notes.INTEGRATED;
    const { agent, name, settings, isVisible } = this.request;
    const terminal = (this.terminal = vscode.window.createTerminal({
      name: name === "main" ? agent : `${agent} · ${name}`,
      cwd: this.directory,
      env: {
        PAGER: "cat",
        GIT_PAGER: "cat",
        [MARK_VARIABLE]: settings.env[MARK_VARIABLE] ?? null,
        ...settings.added,
      },
      isTransient: true,
      hideFromUser: !isVisible,
      ...(process.platform === "win32" ? {} : { shellPath: "bash" }),
    }));
    if (isVisible) terminal.show(true);
    const integration = await within(integrationOf(terminal), START_MS, noIntegration).catch(
      (error: unknown) => {
        terminal.dispose();
        throw error;
      },
    );
    this.processId = await terminal.processId;
    this.ensureOpen();
    this.hasStartedBefore = true;
    return integration;
  }

  /** Runs a command and follows its output until its exit code is known. */
  private async follow(
    execution: Execution,
    integration: vscode.TerminalShellIntegration,
    text: string,
  ): Promise<void> {
    let resolveExitCode!: (code: number | undefined) => void;
    const ended = new Promise<number | undefined>((resolve) => (resolveExitCode = resolve));
    const listening = vscode.window.onDidEndTerminalShellExecution((event) => {
      if (event.execution === shellExecution) resolveExitCode(event.exitCode);
    });
    const shellExecution = integration.executeCommand(asOneCommand(text));
    const plain = new IntegrationOutput();
    for await (const piece of shellExecution.read()) {
      const at = piece.indexOf(RESET);
      if (at >= 0 && !this.isShellAlive) {
        // The shell ended with an error soon after its start. VS Code then starts another shell
        // without integration in the same terminal. That shell cannot be used here.
        this.emit(execution, plain.add(piece.slice(0, at)));
        this.terminal?.dispose();
        resolveExitCode(undefined);
        break;
      }
      this.emit(execution, plain.add(piece));
    }
    this.emit(execution, plain.end());
    if (execution.isOver) resolveExitCode(undefined); // the terminal was closed
    const status = await ended;
    listening.dispose();
    // A command that ended its shell has no status either, and its end may arrive before the
    // shell's.
    if (status === undefined && this.terminal) await goneWithin(this.terminal, INTEGRATION_MS);
    if (execution.isOver) return;
    execution.isStatusUnknown = status === undefined;
    this.finish(execution, status ?? -1);
  }

  private async continueCommand(
    command: RunCommand,
    signal?: AbortSignal,
  ): Promise<ObservationBody<"run">> {
    const { execution, unread } = this;
    if (!execution && unread) {
      this.unread = undefined;
      return this.observations.done(command, unread, this.cwd);
    }
    const typed = command.command.trim() !== "";
    if (!execution) {
      const text = typed ? notes.NOTHING_TO_TYPE_INTO : notes.NOTHING_TO_READ;
      return this.observations.idle(command, text, this.cwd);
    }
    const key = typed && KEY_NAME.test(command.command) ? command.command : "";
    if (key) this.press(key);
    else if (typed) this.terminal?.sendText(command.command.replace(/\n$/, ""), true);
    if (execution.isWaitedFor) return this.observations.forAnother(command, this.cwd);
    return this.answer(command, execution, signal, key);
  }

  private async answer(
    command: RunCommand,
    execution: Execution,
    signal: AbortSignal | undefined,
    key = "",
  ): Promise<ObservationBody<"run">> {
    const soft = command.blocking ? undefined : this.request.settings.softSeconds * 1000;
    const hard = command.timeout === undefined ? undefined : command.timeout * 1000;
    execution.answerCount += 1;
    const abandon = (): void => this.abandon(execution);
    signal?.addEventListener("abort", abandon, { once: true });
    const reason = await execution.wait(soft, hard).finally(() => {
      signal?.removeEventListener("abort", abandon);
    });
    if (signal?.aborted) {
      await execution.ended;
      throw cancelled();
    }
    if (reason !== "soft" && reason !== "hard")
      return this.observations.done(command, execution, this.cwd, key);
    return this.observations.running(command, execution, reason, this.cwd);
  }

  private abandon(execution: Execution): void {
    execution.isAbandoned = true;
    this.press("C-c");
    execution.callLater(INTEGRATION_MS, () => this.terminal?.dispose());
    execution.release();
  }

  private press(key: string): void {
    const code = key.toUpperCase().charCodeAt(key.length - 1) & 0x1f;
    this.terminal?.sendText(String.fromCharCode(code), false);
  }

  private emit(execution: Execution, text: string): void {
    if (!text || this.isClosed) return;
    const data = Buffer.from(text);
    const offset = this.log.endOffset;
    execution.add(data);
    this.log.append(data);
    this.onOutput.fire({ offset, data });
  }

  private finish(execution: Execution, status: number): void {
    this.execution = undefined;
    if (!execution.isWaitedFor && !execution.isAbandoned) this.unread = execution;
    execution.finish(status, -1);
  }

  /** The shell ended, or the user closed its terminal. */
  private lost(status: number): void {
    this.directory = this.cwd;
    this.terminal = undefined;
    const { execution } = this;
    if (!execution) return;
    execution.hasEndedShell = true;
    this.finish(execution, status);
  }

  private get isShellAlive(): boolean {
    return this.processId === undefined || isAlive(this.processId);
  }

  private ensureOpen(): void {
    if (this.isClosed) throw shellClosed(this.name);
  }
}

function integrationOf(terminal: vscode.Terminal): Promise<vscode.TerminalShellIntegration> {
  return new Promise((resolve) => {
    if (terminal.shellIntegration) return resolve(terminal.shellIntegration);
    const listening = vscode.window.onDidChangeTerminalShellIntegration((event) => {
      if (event.terminal !== terminal) return;
      listening.dispose();
      resolve(event.shellIntegration);
    });
  });
}

/** Waits until the terminal is closed, at most `ms` milliseconds. */
function goneWithin(terminal: vscode.Terminal, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer);
      listening.dispose();
      resolve();
    };
    const timer = setTimeout(over, ms);
    const listening = vscode.window.onDidCloseTerminal((closed) => {
      if (closed === terminal) over();
    });
  });
}

/**
 * For some texts (starting with a subshell, a comment, an open quote) the integration reports no
 * end; `eval` fixes that.
 */
function asOneCommand(text: string): string {
  if (process.platform === "win32") return text;
  // Not every shell's `eval` supports `--`, but a leading space keeps a dash from starting an
  // option.
  return `eval ${quoted(text.startsWith("-") ? ` ${text}` : text)}`;
}

function noIntegration(): Failure {
  return new Failure(
    "capability.missing",
    `VS Code's shell integration, which waits for the user's start-up files, did not get ready within ${START_MS / 1000} seconds`,
  );
}
