/** The shells of a window: named shells per agent, created on first use. */
import * as fs from "node:fs";
import * as path from "node:path";
import type { Disposable } from "../common/disposables";
import type { Emitter } from "../common/emitter";
import { Failure } from "../common/failure";
import { makeTemporary } from "../common/temporary_directories";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { RunCommand } from "./observations";
import type { ShellState } from "./premise";
import { endProcesses, MARK_VARIABLE, programsWithMark, type MarkedProcess } from "./processes";
import type { OutputPiece, ShellSettings } from "./shell";

/** The shell used when an action names none. */
export const DEFAULT_SHELL = "main";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** Variables that would change bash's behaviour, describe another terminal, or are internal. */
const NOT_INHERITED =
  /^(BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4]|HISTFILE|TMOUT|MAIL|COLUMNS|LINES|OLDPWD|SHLVL|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|POSIXLY_CORRECT|CDPATH|_|ELECTRON_.*|VSCODE_.*|NODE_OPTIONS|BASCULE_.*|SESSION_API_KEY)$/;

export interface ShellLimits {
  softSeconds: number;
  outputLimit: number;
  logLimit: number;
  maxShells: number;
}

export interface ShellsSettings {
  /** Where shells start: the first workspace folder. */
  workingDir: () => string;
  limits: () => ShellLimits;
  /** Marks every process of this host's shells, so that they can be found and ended. */
  key: string;
  /** Whether shells can say what names mean. If they cannot, rules allow no command. */
  canInspect: boolean;
}

/** The interface of all shells of a window. */
export interface AgentShell {
  readonly name: string;
  readonly cwd: string;
  /** Whether a command runs. Programs in the background do not count. */
  readonly isRunning: boolean;
  readonly onOutput: Emitter<OutputPiece>;
  run(command: RunCommand, signal?: AbortSignal): Promise<ObservationBody<"run">>;
  /** Returns false if nothing runs. */
  interrupt(kill: boolean): Promise<boolean>;
  /** Missing if the shell cannot be asked what names mean. */
  inspect?(names: readonly string[]): Promise<ShellState | undefined>;
  close(): void;
}

/** The parameters of a new shell. */
export interface ShellRequest {
  agent: string;
  name: string;
  settings: ShellSettings;
  logFile: string;
  /** Shown to the user in its own terminal. */
  isVisible: boolean;
  /** Call when the user has closed that terminal. */
  onClosed: () => void;
}

export type MakeShell = (request: ShellRequest) => AgentShell;

export class Shells implements Disposable {
  private readonly shells = new Map<string, AgentShell>();
  private readonly directory = makeTemporary("shells");
  /** Shells that the user stopped. A new shell with the same name informs the agent about this. */
  private readonly stopped = new Set<string>();
  private statics = 0;

  constructor(
    private readonly makeShell: MakeShell,
    private readonly settings: ShellsSettings,
  ) {}

  /** The open shells of all agents. */
  list(): { agent: string; name: string; cwd: string; isRunning: boolean }[] {
    return [...this.shells].map(([of, { name, cwd, isRunning }]) => ({
      ...{ agent: of.split("\n", 1)[0] ?? "", name, cwd, isRunning },
    }));
  }

  /** The programs that shells, kernels and browsers of this window's agents started. */
  programs(): MarkedProcess[] {
    return programsWithMark((value) => value === this.settings.key);
  }

  /** The working directory of an agent's shell. Relative paths use that of the default shell. */
  cwd(agent: string, name = DEFAULT_SHELL): string {
    return this.shells.get(key(agent, name))?.cwd ?? this.settings.workingDir();
  }

  get canInspect(): boolean {
    return this.settings.canInspect;
  }

  /** Whether the agent has a shell of this name. */
  has(agent: string, name = DEFAULT_SHELL): boolean {
    return this.shells.has(key(agent, name));
  }

  /** Undefined if the shell has not started, or a command runs in it. */
  async inspect(
    agent: string,
    name: string,
    names: readonly string[],
  ): Promise<ShellState | undefined> {
    return this.shells.get(key(agent, name))?.inspect?.(names);
  }

  /** The temporary directory of this window's shells: channels and logs. */
  get temporaryDirectory(): string {
    return this.directory;
  }

  logFile(agent: string, name: string): string {
    const owner = agent.replace(/[^A-Za-z0-9._-]/g, "_").slice(0, 64);
    return path.join(this.directory, `${owner}-${name}.log`);
  }

  /**
   * Whether a file is a shell's log. Agents may read logs although they are outside the workspace.
   */
  isLog(file: string): boolean {
    return path.dirname(file) === this.directory && file.endsWith(".log");
  }

  async run(
    agent: string,
    command: RunCommand,
    onPiece: (shell: string, piece: OutputPiece) => void,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    if ((command.output_limit ?? 0) < 0)
      throw new Failure(
        "shell.command_invalid",
        `output_limit is ${command.output_limit ?? 0}; it is a number of characters, or 0 for no limit`,
      );
    if (command.is_static) return this.runStatic(agent, command, signal);
    const shell = this.open(agent, command.shell || DEFAULT_SHELL);
    const listening = shell.onOutput.listen((piece) => onPiece(shell.name, piece));
    try {
      return await shell.run(command, signal);
    } finally {
      listening.dispose();
    }
  }

  async interrupt(agent: string, args: ArgsOf<"interrupt">): Promise<ObservationBody<"interrupt">> {
    const name = args.shell || DEFAULT_SHELL;
    const shell = this.shells.get(key(agent, name));
    if (!shell)
      throw new Failure(
        "shell.not_found",
        `there is no shell '${name}'; there are: ${this.names(agent) || "none yet"}. ` +
          "A `run` action makes the shell it names",
      );
    const running = await shell.interrupt(args.kill ?? false);
    const how = args.kill ? "killed" : "interrupted";
    const content = running ? `${how} in shell '${name}'` : `nothing runs in shell '${name}'`;
    return observe("interrupt", content, { shell: name, was_running: running });
  }

  /**
   * Ends every shell with all its processes, including background jobs. Interrupting is not enough:
   * bash would continue with the next command of a list.
   */
  stop(): void {
    for (const name of this.shells.keys()) this.stopped.add(name);
    this.endAll();
  }

  /**
   * Ends a shell whose terminal was closed. Frees its name, unless a new shell already uses it.
   */
  private closeShell(agent: string, name: string, shell: AgentShell | undefined): void {
    shell?.close();
    if (this.shells.get(key(agent, name)) === shell) this.shells.delete(key(agent, name));
  }

  /** Ends every process that a shell started, including those that left their terminal. */
  endAll(): void {
    for (const shell of this.shells.values()) shell.close();
    this.shells.clear();
    endProcesses((value) => value === this.settings.key);
  }

  dispose(): void {
    this.endAll();
    fs.rmSync(this.directory, { recursive: true, force: true });
  }

  private names(agent: string): string {
    const prefix = key(agent, "");
    const keys = [...this.shells.keys()].filter((each) => each.startsWith(prefix));
    return keys.map((each) => each.slice(prefix.length)).join(", ");
  }

  private open(agent: string, name: string): AgentShell {
    const known = this.shells.get(key(agent, name));
    if (known) return known;
    if (name === "ipython")
      throw new Failure(
        "shell.invalid_name",
        `'${name}' is the IPython kernel; use run_ipython, or another name for a shell`,
      );
    if (!NAME.test(name))
      throw new Failure(
        "shell.invalid_name",
        `'${name}' cannot name a shell: use up to 64 letters, digits, dots, dashes and ` +
          "underscores, starting with a letter or digit",
      );
    const limit = this.settings.limits().maxShells;
    if (this.shells.size >= limit)
      throw new Failure(
        "shell.too_many",
        `${this.shells.size} shells are open, which is the limit (bascule.terminal.maxShells)`,
      );
    const shell = this.make(agent, name, this.settings.workingDir(), true);
    this.shells.set(key(agent, name), shell);
    return shell;
  }

  private make(
    agent: string,
    name: string,
    workingDir: string,
    isVisible: boolean,
    added: Readonly<Record<string, string>> = {},
  ): AgentShell {
    const settings: ShellSettings = {
      ...this.settings.limits(),
      directory: this.directory,
      workingDir,
      env: { ...this.environment(), ...added },
      added,
      isReplacement: this.stopped.delete(key(agent, name)),
    };
    const logFile = this.logFile(agent, name);
    const onClosed = (): void => this.closeShell(agent, name, shell);
    const shell = this.makeShell({ agent, name, settings, logFile, isVisible, onClosed });
    return shell;
  }

  /** Runs a command in a temporary shell. The command is ended at its timeout. */
  private async runStatic(
    agent: string,
    command: RunCommand,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    const cwd = path.resolve(this.cwd(agent), command.cwd ?? "");
    const stats = fs.statSync(cwd, { throwIfNoEntry: false });
    if (!stats) throw new Failure("path.not_found", `the command's cwd does not exist: ${cwd}`);
    if (!stats.isDirectory())
      throw new Failure("path.not_directory", `the command's cwd is not a directory: ${cwd}`);
    this.statics += 1;
    const shell = this.make(agent, `static-${this.statics}`, cwd, false, command.env);
    try {
      return await shell.run({ ...command, cwd: null }, signal);
    } finally {
      shell.close();
    }
  }

  /** The environment of agents' programs, with the mark of this host. */
  environment(): Record<string, string> {
    const env: Record<string, string> = {};
    for (const [name, value] of Object.entries(process.env))
      if (value !== undefined && !NOT_INHERITED.test(name)) env[name] = value;
    if (!env.LC_ALL && !env.LC_CTYPE && !env.LANG) env.LANG = "C.UTF-8";
    return {
      ...env,
      TERM: "xterm-256color",
      PAGER: "cat", // `less` would wait for a key
      GIT_PAGER: "cat",
      SHELL: "/bin/bash",
      [MARK_VARIABLE]: this.settings.key,
    };
  }
}

function key(agent: string, name: string): string {
  return `${agent}\n${name}`;
}
