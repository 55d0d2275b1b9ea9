/** The shells of a window: one set of names per agent, made on first use, ended together. */
import * as fs from "node:fs";
import * as path from "node:path";
import type { Disposable } from "../common/disposables";
import type { Emitter } from "../common/emitter";
import { Failure } from "../common/failure";
import { makeTemporary } from "../common/temporary_directories";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { RunCommand } from "./observations";
import { endProcesses, KEY } from "./processes";
import type { OutputPiece, ShellSettings } from "./shell";

/** The shell used when an action names none. */
export const DEFAULT = "main";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** Would change how bash behaves, describe another terminal, or are not a program's business. */
const NOT_INHERITED =
  /^(BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4]|HISTFILE|TMOUT|MAIL|COLUMNS|LINES|OLDPWD|SHLVL|SHELLOPTS|BASHOPTS|_|ELECTRON_.*|VSCODE_.*|NODE_OPTIONS|BASCULE_.*|SESSION_API_KEY)$/;

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
  /** Marks every process of this host's shells, so that none is left behind. */
  key: string;
}

/** What the shells of a window have in common, however commands get done in them. */
export interface AgentShell {
  readonly name: string;
  readonly cwd: string;
  readonly onOutput: Emitter<OutputPiece>;
  run(command: RunCommand, signal?: AbortSignal): Promise<ObservationBody<"run">>;
  /** False: nothing runs. */
  interrupt(kill: boolean): Promise<boolean>;
  close(): void;
}

/** A shell that is wanted. */
export interface ShellRequest {
  agent: string;
  name: string;
  settings: ShellSettings;
  logFile: string;
  /** The user sees it, in a terminal of its own. */
  isSeen: boolean;
  /** To be called when the user has closed that terminal. */
  onClosed: () => void;
}

export type MakeShell = (order: ShellRequest) => AgentShell;

export class Shells implements Disposable {
  private readonly shells = new Map<string, AgentShell>();
  private readonly directory = makeTemporary("shells");
  /** Shells that the user stopped: the next of that name is told to be new. */
  private readonly stopped = new Set<string>();
  private statics = 0;

  constructor(
    private readonly makeShell: MakeShell,
    private readonly settings: ShellsSettings,
  ) {}

  /** What relative paths are relative to: the directory of the agent's default shell. */
  cwd(agent: string, name = DEFAULT): string {
    return this.shells.get(key(agent, name))?.cwd ?? this.settings.workingDir();
  }

  /** Where everything of this window's shells is kept while it is open. */
  get temporaryDirectory(): string {
    return this.directory;
  }

  logFile(agent: string, name: string): string {
    const owner = agent.replace(/[^A-Za-z0-9._-]/g, "_").slice(0, 64);
    return path.join(this.directory, `${owner}-${name}.log`);
  }

  /** Logs of shells may be read though they are outside of the workspace. */
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
        `output_limit is ${command.output_limit ?? 0}; it counts characters, and 0 asks for all`,
      );
    if (command.is_static) return this.runStatic(agent, command, signal);
    const shell = this.open(agent, command.shell || DEFAULT);
    const listening = shell.onOutput.listen((piece) => onPiece(shell.name, piece));
    try {
      return await shell.run(command, signal);
    } finally {
      listening.dispose();
    }
  }

  async interrupt(agent: string, args: ArgsOf<"interrupt">): Promise<ObservationBody<"interrupt">> {
    const name = args.shell || DEFAULT;
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
   * Ends every shell with all that runs in it, also in the background. Interrupting would not do: bash
   * goes on with the next command of a list.
   */
  stop(): void {
    for (const name of this.shells.keys()) this.stopped.add(name);
    this.endAll();
  }

  /** Ends a shell whose terminal was closed; its name is free again, unless a new one has it already. */
  private closeShell(agent: string, name: string, shell: AgentShell | undefined): void {
    shell?.close();
    if (this.shells.get(key(agent, name)) === shell) this.shells.delete(key(agent, name));
  }

  /** Ends every process any shell started, also those that left their terminal. */
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

  private make(agent: string, name: string, workingDir: string, isSeen: boolean): AgentShell {
    const settings: ShellSettings = {
      ...this.settings.limits(),
      directory: this.directory,
      workingDir,
      env: this.environment(),
      isReplacement: this.stopped.delete(key(agent, name)),
    };
    const logFile = this.logFile(agent, name);
    const onClosed = (): void => this.closeShell(agent, name, shell);
    const shell = this.makeShell({ agent, name, settings, logFile, isSeen, onClosed });
    return shell;
  }

  /** In a shell that lasts for this command: one that outlives its time-out is ended. */
  private async runStatic(
    agent: string,
    command: RunCommand,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    const cwd = path.resolve(this.cwd(agent), command.cwd ?? "");
    const there = fs.statSync(cwd, { throwIfNoEntry: false });
    if (!there) throw new Failure("path.not_found", `the command's cwd does not exist: ${cwd}`);
    if (!there.isDirectory())
      throw new Failure("path.not_directory", `the command's cwd is not a directory: ${cwd}`);
    this.statics += 1;
    const shell = this.make(agent, `static-${this.statics}`, cwd, false);
    try {
      return await shell.run({ ...command, cwd: null }, signal);
    } finally {
      shell.close();
    }
  }

  /** What programs of agents start with, marked so that they are found again. */
  environment(): Record<string, string> {
    const env: Record<string, string> = {};
    for (const [name, value] of Object.entries(process.env))
      if (value !== undefined && !NOT_INHERITED.test(name)) env[name] = value;
    if (!env.LC_ALL && !env.LC_CTYPE && !env.LANG) env.LANG = "C.UTF-8";
    return {
      ...env,
      TERM: "xterm-256color",
      PAGER: "cat", // a person's `less` would wait for a key
      GIT_PAGER: "cat",
      SHELL: "/bin/bash",
      [KEY]: this.settings.key,
    };
  }
}

function key(agent: string, name: string): string {
  return `${agent}\n${name}`;
}
