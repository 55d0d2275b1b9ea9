/**
 * Reads terminals of the user, each only after the user agreed.
 *
 * VS Code hands out the output of a terminal only through its shell integration, and only output
 * that a command prints after an extension has begun to read it. So three things cannot be read:
 * output from before the user agreed, keystrokes, and terminals without shell integration.
 */
import * as vscode from "vscode";
import { OutputTail } from "../agent_debugging/output_tail";
import { Disposables, type Disposable } from "../common/disposables";
import { Failure } from "../common/failure";
import { shortOutput } from "../common/shown_output";
import type { AgentAction } from "../hub/messages";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { TaskCall } from "./agent_tasks";
import { followOutput } from "./execution_output";
import { processIdOf } from "./process_id";

/** Maximum characters kept for each agent and terminal. */
const MAX_CHARS = 256 << 10;
const MAX_COMMANDS = 50;

interface SeenCommand {
  [name: string]: unknown;
  command: string;
  cwd: string;
  exit_code: number | null;
}

/** The output and the commands of one terminal that one agent may read. */
class TerminalWatch {
  readonly tail = new OutputTail(MAX_CHARS);
  commands: SeenCommand[] = [];
  hasNews = false;
  /** Ends the wait of each call that waits for output. */
  private readonly waiters = new Set<() => void>();

  /** Reads what the command prints from now on. */
  follow(execution: vscode.TerminalShellExecution): SeenCommand {
    const seen: SeenCommand = {
      command: execution.commandLine.value,
      cwd: execution.cwd?.fsPath ?? "",
      exit_code: null,
    };
    this.commands = [...this.commands, seen].slice(-MAX_COMMANDS);
    void followOutput(execution, (text) => this.add(text));
    this.add(`$ ${seen.command}\n`);
    return seen;
  }

  add(text: string): void {
    if (!text) return;
    this.tail.add(text);
    this.hasNews = true;
    for (const wake of [...this.waiters]) wake();
  }

  /** Waits for output, at most until the time `until`. */
  async news({ until, signal }: TaskCall): Promise<void> {
    if (this.hasNews || signal.aborted) return;
    const milliseconds = until - performance.now();
    if (milliseconds <= 0) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        this.waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      signal.addEventListener("abort", done, { once: true });
      this.waiters.add(done);
    });
  }
}

export class UserTerminals implements Disposable {
  private readonly owned = new Disposables();
  private readonly plans = new WeakMap<AgentAction, vscode.Terminal>();
  private readonly running = new Map<vscode.Terminal, vscode.TerminalShellExecution>();
  /** By terminal and agent. */
  private readonly watches = new Map<vscode.Terminal, Map<string, TerminalWatch>>();
  private readonly seen = new WeakMap<vscode.TerminalShellExecution, SeenCommand[]>();

  constructor() {
    const { window } = vscode;
    this.owned.add(
      window.onDidStartTerminalShellExecution(({ terminal, execution }) => {
        this.running.set(terminal, execution);
        const watches = [...(this.watches.get(terminal)?.values() ?? [])];
        this.seen.set(
          execution,
          watches.map((watch) => watch.follow(execution)),
        );
      }),
    );
    this.owned.add(
      window.onDidEndTerminalShellExecution(({ terminal, execution, exitCode }) => {
        if (this.running.get(terminal) === execution) this.running.delete(terminal);
        for (const each of this.seen.get(execution) ?? []) each.exit_code = exitCode ?? null;
      }),
    );
    this.owned.add(
      window.onDidCloseTerminal((terminal) => {
        this.running.delete(terminal);
        this.watches.delete(terminal);
      }),
    );
  }

  isBusy(terminal: vscode.Terminal): boolean {
    return this.running.has(terminal);
  }

  /** Whether the user has agreed that the agent reads the terminal that the action names. */
  isGranted(action: AgentAction, agent: string): boolean {
    const terminal = this.plans.get(action);
    return terminal !== undefined && this.watches.get(terminal)?.has(agent) === true;
  }

  /** What the question to the user shows. Fails if the terminal cannot be read. */
  async shownArguments(action: AgentAction): Promise<Record<string, unknown>> {
    if (action.action !== "read_terminal") return {};
    const terminal = await readableTerminal(action.args.terminal);
    if (!this.plans.has(action)) this.plans.set(action, terminal);
    return {
      terminal: await label(terminal),
      reads: "what it prints from now on, until it is closed or agents are stopped",
    };
  }

  async read(
    args: ArgsOf<"read_terminal">,
    action: AgentAction,
    agent: string,
    call: TaskCall,
  ): Promise<ObservationBody<"read_terminal">> {
    const terminal = this.plans.get(action) ?? (await readableTerminal(args.terminal));
    const known = this.watches.get(terminal)?.get(agent);
    const watch = known ?? this.watch(terminal, agent);
    await watch.news(call);
    watch.hasNews = false;
    const { text, leftOut } = watch.tail.take();
    const { text: content, isCut } = shortOutput(text, args.output_limit ?? 8000, leftOut);
    const commands = watch.commands;
    watch.commands = commands.filter(({ exit_code: code }) => code === null).slice(-1);
    const facts = { terminal: await label(terminal), commands, truncated: isCut };
    const nothing = known ? "No output since the last call" : "No output yet";
    const seen = observe("read_terminal", content || nothing, facts);
    if (known) return seen;
    return { ...seen, note: "Output from before the user agreed cannot be read" };
  }

  /** Ends all permissions to read: the user has to agree again. */
  forget(): void {
    this.watches.clear();
  }

  dispose(): void {
    this.owned.dispose();
  }

  private watch(terminal: vscode.Terminal, agent: string): TerminalWatch {
    const watch = new TerminalWatch();
    const watches = this.watches.get(terminal) ?? new Map<string, TerminalWatch>();
    this.watches.set(terminal, watches.set(agent, watch));
    const execution = this.running.get(terminal);
    if (execution)
      this.seen.set(execution, [...(this.seen.get(execution) ?? []), watch.follow(execution)]);
    return watch;
  }
}

async function readableTerminal(wanted: string): Promise<vscode.Terminal> {
  const terminals = await Promise.all(
    vscode.window.terminals.map(async (terminal) => ({
      terminal,
      pid: String((await processIdOf(terminal)) ?? ""),
    })),
  );
  const found = terminals.filter(({ terminal, pid }) => [terminal.name, pid].includes(wanted));
  const [first] = found;
  if (!first || found.length > 1) {
    const all = terminals.map(({ terminal, pid }) => `'${terminal.name}' (process ${pid})`);
    const problem = first ? `Several terminals are called '${wanted}'` : `No terminal '${wanted}'`;
    throw new Failure(
      "terminal.not_found",
      `${problem}. There are: ${all.join(", ") || "none"}${first ? "; name its process" : ""}`,
    );
  }
  ensureReadable(first.terminal);
  return first.terminal;
}

function ensureReadable(terminal: vscode.Terminal): void {
  const { name, creationOptions, shellIntegration } = terminal;
  if ("pty" in creationOptions)
    throw new Failure(
      "terminal.unreadable",
      `The terminal '${name}' belongs to an extension, so VS Code does not hand out its output. The output of agents' shells is in their \`run\` answers`,
    );
  if (!shellIntegration)
    throw new Failure(
      "terminal.unreadable",
      `VS Code hands out the output of a terminal only through its shell integration, which '${name}' does not have: the setting terminal.integrated.shellIntegration.enabled is off, its shell is not supported, or its start-up files still run`,
    );
}

async function label(terminal: vscode.Terminal): Promise<string> {
  return `${terminal.name} (process ${(await processIdOf(terminal)) ?? "unknown"})`;
}
