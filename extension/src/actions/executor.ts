/** Performs actions: maps every kind of action to the part that handles it. */
import type { AsyncLocalStorage } from "node:async_hooks";
import { Failure } from "../common/failure";
import { within } from "../common/deadline";
import { abortable } from "../common/abortable";
import { changeScope, type FileChangeScope } from "../checkpoints/changing_actions";
import type { CheckpointKind, RecordedAction } from "../checkpoints/checkpoints";
import type { ApprovalAnswered, AgentAction } from "../hub/messages";
import type { OnProgress, ActionExecutor } from "../hub/action_runner";
import {
  observe,
  type ActionKind,
  type ActionOf,
  type ArgsOf,
  type ExtrasOf,
  type ObservationBody,
} from "../protocol";
import type { AgentDebugger, DebugCall } from "../agent_debugging/agent_debugger";
import { listConfigurations } from "../agent_debugging/launch_configurations";
import type { CellRunLimit } from "../notebook_cells/cell_run";
import type { NotebookCells } from "../notebook_cells/notebook_cells";
import type { WaitLimit } from "../language/language_servers";
import type { Lookups } from "../language/lookups";
import type { Refactorings } from "../language/refactorings";
import { IPYTHON } from "../notebook/kernel";
import type { Kernels } from "../notebook/kernels";
import type { AgentGit } from "../source_control/agent_git";
import type { AgentTasks, TaskCall } from "../tasks/agent_tasks";
import { listRunning } from "../tasks/running_list";
import type { UserTerminals } from "../tasks/user_terminals";
import type { AgentTests, TestCall, TestPlan } from "../tests/agent_tests";
import type { ShellPremise } from "../terminal/premise";
import type { Shells } from "../terminal/shells";
import type { AgentNames } from "./agent_names";
import type { BrowserActions } from "./browser";
import { summary, type Consent } from "./consent";
import type { Editor } from "./editor";
import type { Files } from "./files";
import type { LanguageFeatures } from "./language";
import type { Search } from "./search";
import type { StartedByAgents } from "./started_by_agents";
import { listOpenEditors } from "../window_view/open_editors";
import type { WindowView } from "../window_view/window_view";
import type { WindowActions } from "./window";

export interface ExecutorParts {
  shells: Shells;
  kernels: Kernels;
  files: Files;
  editor: Editor;
  search: Search;
  language: LanguageFeatures;
  lookups: Lookups;
  refactorings: Refactorings;
  debugger: AgentDebugger;
  tests: AgentTests;
  cells: NotebookCells;
  tasks: AgentTasks;
  terminals: UserTerminals;
  git: AgentGit;
  view: WindowView;
  window: WindowActions;
  consent: Consent;
  names: AgentNames;
  started: StartedByAgents;
  /** The name of the agent whose action runs. */
  actingAgent: AsyncLocalStorage<string>;
  review: ActionReview;
  checkpoints: ActionCheckpoints;
  /** The absolute path of an argument of an action. */
  absolute: (path: string, cwd: string) => string;
  /** Handles the requests of scripts; see `bridge/`. */
  bridge: {
    ask(request: {
      agent: string;
      id: string;
      request: string;
      params: Record<string, unknown>;
      signal: AbortSignal;
      onPiece: (value: unknown) => void;
    }): Promise<{ result: unknown; error: object | null }>;
  };
  /** Undefined if the machine has no browser. A promise, because finding a browser takes time. */
  browser: Promise<BrowserActions | undefined>;
  /** Explains what is missing for a browser. */
  whyNoBrowser: () => string;
}

/** Records checkpoints; see `checkpoints/`. */
export interface ActionCheckpoints {
  /** Why this window has no checkpoints; empty if it has checkpoints. */
  readonly whyOff: string;
  /** Called before the user is asked about an action that may change files. Never rejects. */
  prepare(): Promise<void>;
  around(action: RecordedAction, work: () => Promise<ObservationBody>): Promise<ObservationBody>;
  execute<K extends CheckpointKind>(kind: K, args: ArgsOf<K>): Promise<ObservationBody<K>>;
}

/** What the review of changes learns about actions; see `changes/`. */
export interface ActionReview {
  /** Called before an allowed action runs. Reads the files that the action might change. */
  prepare(kind: string): Promise<void>;
  began(id: string, kind: string, agent: string): void;
  ended(id: string, extras: Record<string, unknown>): void;
  /** Which of the agent's changes the user undid since the last call; empty if none. */
  noteFor(agent: string): string;
}

interface ActionContext {
  agent: string;
  action: AgentAction;
  id: string;
  cwd: string;
  premise: ShellPremise | undefined;
  plan: TestPlan | undefined;
  timeout: number | undefined;
  onProgress: OnProgress;
  signal: AbortSignal;
}

type ActionHandlers = {
  [K in ActionKind]?: (
    args: ActionOf<K>["args"],
    context: ActionContext,
  ) => Promise<ObservationBody>;
};

/** Kinds of actions that handle their own timeout: the timeout is not an error for them. */
const HANDLES_OWN_TIMEOUT = new Set([
  "run",
  "run_ipython",
  "glob",
  "grep",
  "browse",
  "browse_interactive",
  "debug_start",
  "debug_continue",
  "debug_step",
  "debug_pause",
  "debug_stop",
  "list_tests",
  "run_tests",
  "run_cells",
  "run_task",
  "stop_task",
  "read_terminal",
]);
/** Milliseconds that an action without a timeout waits for a language server or a program. */
const DEFAULT_WAIT_MS = 60_000;
/** Share of an action's timeout for which it waits for a language server. */
const WAIT_SHARE = 0.9;
const BROWSER_ACTIONS = new Set(["browse", "browse_interactive"]);
const CHECKPOINT_ACTIONS = new Set(["checkpoints", "checkpoint", "restore"]);

export class Executor implements ActionExecutor {
  private readonly handlers: ActionHandlers;
  private canBrowse = false;
  /** The working directory at the time of the consent request; the action runs in it. */
  private readonly cwds = new WeakMap<AgentAction, string>();
  /** For a command that rules allowed: what must be true of its shell when the command starts. */
  private readonly premises = new WeakMap<AgentAction, ShellPremise>();

  constructor(private readonly parts: ExecutorParts) {
    const { shells, kernels, files, editor, search, language, window, checkpoints } = parts;
    const {
      lookups,
      refactorings,
      debugger: debugging,
      tests,
      cells,
      tasks,
      terminals,
      git,
      view,
    } = parts;
    this.handlers = {
      read: (args, { cwd }) =>
        args.impl_source === "oh_aci" ? editor.view(args, cwd) : files.read(args, cwd),
      write: (args, { cwd }) => files.write(args, cwd),
      edit: (args, { cwd }) => editor.edit(args, cwd),
      mkdir: (args, { cwd }) => files.makeDir(args, cwd),
      rmdir: (args, { cwd }) => files.removeDir(args, cwd),
      rm: (args, { cwd }) => files.remove(args, cwd),
      list: (args, { cwd }) => files.list(args, cwd),
      glob: (args, { cwd, timeout }) => search.glob(args, cwd, timeout),
      grep: (args, { cwd, timeout }) => search.grep(args, cwd, timeout),
      diagnostics: (args, context) => language.diagnostics(args, context.cwd, waitLimitOf(context)),
      symbols: (args, { cwd }) => language.symbols(args, cwd),
      language: (args, context) => lookups.lookup(args, context.cwd, waitLimitOf(context)),
      rename_symbol: (args, context) =>
        refactorings.rename(args, context.cwd, waitLimitOf(context)),
      apply_code_action: (args, context) =>
        refactorings.applyCodeAction(args, context.cwd, waitLimitOf(context)),
      format: (args, context) => refactorings.format(args, context.cwd, waitLimitOf(context)),
      organize_imports: (args, context) =>
        refactorings.organizeImports(args, context.cwd, waitLimitOf(context)),
      debug_configurations: () => Promise.resolve().then(listConfigurations),
      set_breakpoints: (args, { cwd, agent }) => debugging.setBreakpoints(args, cwd, agent),
      debug_start: (args, context) => debugging.start(args, debugCall(context)),
      debug_continue: (args, context) => debugging.continue(args, debugCall(context)),
      debug_step: (args, context) => debugging.step(args, debugCall(context)),
      debug_pause: (args, context) => debugging.pause(args, debugCall(context)),
      debug_state: (args, { agent }) => debugging.state(args, agent),
      debug_evaluate: (args, { agent }) => debugging.evaluate(args, agent),
      debug_set_variable: (args, { agent }) => debugging.setVariable(args, agent),
      debug_stop: (args, context) => debugging.stop(args, debugCall(context)),
      list_tests: (args, context) => tests.list(args, planIn(context), testCall(context)),
      run_tests: (args, context) => tests.run(args, planIn(context), testCall(context)),
      test_results: (args, { agent }) => Promise.resolve().then(() => tests.results(args, agent)),
      read_cells: (args, { cwd }) => cells.read(args, cwd),
      edit_cells: (args, { cwd }) => cells.edit(args, cwd),
      run_cells: (args, context) => cells.run(args, context.cwd, cellRunLimit(context)),
      list_tasks: (args, { signal }) => tasks.list(args, signal),
      run_task: (args, context) =>
        tasks.run(args, context.action, taskCall(context, DEFAULT_WAIT_MS)),
      stop_task: (args, context) => tasks.stop(args, taskCall(context, DEFAULT_WAIT_MS)),
      list_running: () => listRunning(shells, terminals),
      read_terminal: (args, context) =>
        terminals.read(args, context.action, context.agent, taskCall(context, 0)),
      git_status: (args) => git.status(args),
      git_diff: (args, { cwd }) => git.diff(args, cwd),
      git_stage: (args, { cwd }) => git.stage(args, cwd),
      git_unstage: (args, { cwd }) => git.unstage(args, cwd),
      git_commit: (args) => git.commit(args),
      open_editors: () => Promise.resolve(listOpenEditors()),
      list_ports: () => view.ports(),
      screenshot: () => view.screenshot(),
      selection: () => Promise.resolve(language.selection()),
      open_file: (args, { cwd }) => window.openFile(args, cwd),
      show_diff: (args, { cwd }) => window.showDiff(args, cwd),
      ask_user: (args, { signal }) => window.askUser(args, signal),
      vscode_command: (args, { cwd, signal }) =>
        parts.started.recordDuring(() => window.command(args, cwd, signal)),
      bridge: (args, context) => this.ask(args, context),
      run: (args, { agent, premise, timeout, onProgress, signal }) =>
        shells.run(
          agent,
          { ...args, timeout, premise },
          (shell, { offset, data }) => onProgress(shell, offset, data),
          signal,
        ),
      run_ipython: (args, { agent, cwd, timeout, onProgress, signal }) =>
        kernels.run(agent, { ...args, timeout, cwd }, onProgress, signal),
      interrupt: (args, { agent }) =>
        (args.shell === IPYTHON ? kernels : shells).interrupt(agent, args),
      checkpoints: (args) => checkpoints.execute("checkpoints", args),
      checkpoint: (args) => checkpoints.execute("checkpoint", args),
      restore: (args) => checkpoints.execute("restore", args),
      browse: async (args, { timeout, signal }) =>
        (await this.browserFor("browse")).browse(args, timeout, signal),
      browse_interactive: async (args, { timeout, signal }) =>
        (await this.browserFor("browse_interactive")).interact(args, timeout, signal),
    };
  }

  /** Performs a `bridge` action. Progress is sent as lines of JSON. */
  private async ask(
    args: ArgsOf<"bridge">,
    context: ActionContext,
  ): Promise<ObservationBody<"bridge">> {
    const { request, params = {} } = args;
    const { agent, id, signal, onProgress } = context;
    let offset = 0;
    const onPiece = (value: unknown): void => {
      const line = Buffer.from(`${JSON.stringify(value)}\n`);
      onProgress("", offset, line);
      offset += line.length;
    };
    const answered = await this.parts.started.recordDuring(() =>
      this.parts.bridge.ask({ agent, id, request, params, signal, onPiece }),
    );
    return observe("bridge", "", { request, ...answered } as ExtrasOf<"bridge">);
  }

  /** Waits until all capabilities are known. True if there is a browser. */
  async settle(): Promise<boolean> {
    this.canBrowse = (await this.parts.browser) !== undefined;
    return this.canBrowse;
  }

  /** The capabilities known so far. */
  get capabilities(): string[] {
    const hasCheckpoints = !this.parts.checkpoints.whyOff;
    return Object.keys(this.handlers)
      .filter((kind) => this.canBrowse || !BROWSER_ACTIONS.has(kind))
      .filter((kind) => this.parts.view.canTakeScreenshots || kind !== "screenshot")
      .filter((kind) => hasCheckpoints || !CHECKPOINT_ACTIONS.has(kind))
      .sort();
  }

  private async browserFor(kind: string): Promise<BrowserActions> {
    const browser = await this.parts.browser;
    if (!browser) throw this.notSupported(kind);
    return browser;
  }

  async admit(action: AgentAction, signal: AbortSignal, arrived: number): Promise<void> {
    this.cwds.set(action, this.cwd(action));
    if (this.handlers[action.action] && confirmationOf(action) === "confirmed") {
      await this.parts.tests.plan(action, this.parts.names.nameOf(action), this.cwd(action));
      if (this.scopeOf(action)) await abortable(this.parts.checkpoints.prepare(), signal);
      const premise = await this.parts.consent.admit(action, signal, arrived);
      if (premise) this.premises.set(action, premise);
    }
    await this.parts.review.prepare(action.action);
  }

  /** The directory to which relative paths of the action refer, and in which a command runs. */
  cwd(action: AgentAction): string {
    const { shells, names } = this.parts;
    return this.cwds.get(action) ?? shells.cwd(names.nameOf(action), shellOf(action));
  }

  async perform(
    action: AgentAction,
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    const state = confirmationOf(action);
    if (state === "rejected")
      return observe("user_rejected", "The user refused this action; it was not done", {});
    if (state !== "confirmed") return observe("null", "", {}); // still waits for confirmation
    const kind = action.action;
    const handler = this.handlers[kind] as
      ((args: unknown, context: ActionContext) => Promise<ObservationBody>) | undefined;
    if (!handler) throw this.notSupported(kind);
    const timeout = action.timeout ?? undefined;
    const cwd = this.cwd(action);
    const agent = this.parts.names.nameOf(action);
    const premise = this.premises.get(action);
    const plan = this.parts.tests.planOf(action);
    const work = this.withReview(action, agent, () =>
      this.withCheckpoint(action, agent, signal, () =>
        handler(action.args, {
          ...{ agent, action, id: action.id, cwd, premise, plan, timeout, onProgress, signal },
        }),
      ),
    );
    if (timeout === undefined || HANDLES_OWN_TIMEOUT.has(kind)) return work;
    return within(work, timeout * 1000, () => outOfTime(kind, timeout));
  }

  /** Records a checkpoint around an action that may change files. Other actions run directly. */
  private withCheckpoint(
    action: AgentAction,
    agent: string,
    signal: AbortSignal,
    work: () => Promise<ObservationBody>,
  ): Promise<ObservationBody> {
    const scope = this.scopeOf(action);
    if (!scope) return work();
    const { action: kind } = action;
    const title = summary(action);
    return this.parts.checkpoints.around({ kind, agent, title, scope, signal }, work);
  }

  private scopeOf(action: AgentAction): FileChangeScope | undefined {
    try {
      return changeScope(action, (path) => this.parts.absolute(path, this.cwd(action)));
    } catch (error) {
      if (error instanceof Failure) return undefined; // the action fails: invalid path
      throw error;
    }
  }

  /**
   * Tells the review when the action begins and ends. Adds a note for the agent about changes that
   * the user undid.
   */
  private async withReview(
    { id, action }: AgentAction,
    agent: string,
    work: () => Promise<ObservationBody>,
  ): Promise<ObservationBody> {
    const { actingAgent, review } = this.parts;
    review.began(id, action, agent);
    let extras: Record<string, unknown> = {};
    try {
      const observation = await actingAgent.run(agent, work);
      extras = observation.extras;
      const note = [observation.note, review.noteFor(agent)].filter(Boolean).join("\n");
      return note ? { ...observation, note } : observation;
    } finally {
      review.ended(id, extras);
    }
  }

  /** Agents have to ask again before they read terminals of the user. */
  forgetGrants(): void {
    this.parts.terminals.forget();
  }

  approval(answered: ApprovalAnswered): void {
    this.parts.consent.answered(answered);
  }

  ready(): void {
    this.parts.consent.publishAgain();
  }

  end(): void {
    this.parts.debugger.endAll();
    this.parts.kernels.endAll();
    this.parts.shells.endAll();
  }

  private notSupported(kind: string): Failure {
    const why = BROWSER_ACTIONS.has(kind) ? `: ${this.parts.whyNoBrowser()}` : "";
    return new Failure(
      "capability.missing",
      `'${kind}' actions are not available in this window${why}; it can do: ${this.capabilities.join(", ")}`,
      { kind },
    );
  }
}

/** Ends before the action's timeout, so that there is time for an answer that explains the wait. */
function waitLimitOf({ timeout, signal }: ActionContext): WaitLimit {
  const milliseconds = timeout === undefined ? DEFAULT_WAIT_MS : timeout * 1000 * WAIT_SHARE;
  return { until: performance.now() + milliseconds, signal };
}

/** Ends at the action's timeout. The answer is then "still running", which is not an error. */
function debugCall({ agent, timeout, signal }: ActionContext): DebugCall {
  const milliseconds = timeout === undefined ? DEFAULT_WAIT_MS : timeout * 1000;
  return { agent, until: performance.now() + milliseconds, signal };
}

function testCall({ agent, timeout, premise, signal }: ActionContext): TestCall {
  return { agent, timeout, premise, signal };
}

function taskCall({ timeout, signal }: ActionContext, defaultMs: number): TaskCall {
  const milliseconds = timeout === undefined ? defaultMs : timeout * 1000;
  return { until: performance.now() + milliseconds, signal };
}

function planIn({ plan }: ActionContext): TestPlan {
  if (!plan) throw new Error("the action was not planned before it was admitted");
  return plan;
}

function cellRunLimit({ timeout, signal }: ActionContext): CellRunLimit {
  return { until: timeout === undefined ? undefined : performance.now() + timeout * 1000, signal };
}

/** The shell whose directory is the action's working directory; undefined: the default shell. */
function shellOf(action: AgentAction): string | undefined {
  if (action.action !== "run") return undefined;
  const { shell, is_static } = action.args;
  return is_static ? undefined : shell || undefined;
}

function confirmationOf(action: AgentAction): string {
  const { confirmation_state: state } = action.args as { confirmation_state?: string };
  return state ?? "confirmed";
}

function outOfTime(kind: string, seconds: number): Failure {
  return new Failure(
    "action.timed_out",
    `The ${kind} action did not finish within ${seconds} seconds; what it had begun may still take effect`,
  );
}
