/** Performs actions: maps every kind of action to the part that handles it. */
import { Failure } from "../common/failure";
import { within } from "../common/deadline";
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
import { IPYTHON } from "../notebook/kernel";
import type { Kernels } from "../notebook/kernels";
import type { Shells } from "../terminal/shells";
import type { AgentNames } from "./agent_names";
import type { BrowserActions } from "./browser";
import type { Consent } from "./consent";
import type { Editor } from "./editor";
import type { Files } from "./files";
import type { LanguageFeatures } from "./language";
import type { Search } from "./search";
import type { StartedByAgents } from "./started_by_agents";
import type { WindowActions } from "./window";

export interface ExecutorParts {
  shells: Shells;
  kernels: Kernels;
  files: Files;
  editor: Editor;
  search: Search;
  language: LanguageFeatures;
  window: WindowActions;
  consent: Consent;
  names: AgentNames;
  started: StartedByAgents;
  /** Answers what scripts ask; see `bridge/`. */
  bridge: {
    ask(asked: {
      agent: string;
      id: string;
      request: string;
      params: Record<string, unknown>;
      signal: AbortSignal;
      onPiece: (value: unknown) => void;
    }): Promise<{ result: unknown; error: object | null }>;
  };
  /** Undefined if the machine has no browser. A promise, because finding out takes a while. */
  browsing: Promise<BrowserActions | undefined>;
  /** Explains what is missing for a browser. */
  whyNoBrowser: () => string;
}

interface ActionContext {
  agent: string;
  id: string;
  cwd: string;
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

/** These actions handle their timeout themselves: it ends the wait and is not an error. */
const TIMES_ITSELF = new Set([
  "run",
  "run_ipython",
  "glob",
  "grep",
  "browse",
  "browse_interactive",
]);
const BROWSING = new Set(["browse", "browse_interactive"]);

export class Executor implements ActionExecutor {
  private readonly handlers: ActionHandlers;
  private canBrowse = false;
  /** Working directory of an action when consent was asked for; it is used when the action runs. */
  private readonly cwds = new WeakMap<AgentAction, string>();

  constructor(private readonly parts: ExecutorParts) {
    const { shells, kernels, files, editor, search, language, window } = parts;
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
      diagnostics: (args, { cwd }) => language.diagnostics(args, cwd),
      symbols: (args, { cwd }) => language.symbols(args, cwd),
      selection: () => Promise.resolve(language.selection()),
      open_file: (args, { cwd }) => window.openFile(args, cwd),
      show_diff: (args, { cwd }) => window.showDiff(args, cwd),
      ask_user: (args, { signal }) => window.askUser(args, signal),
      vscode_command: (args, { signal }) =>
        parts.started.during(() => window.command(args, signal)),
      bridge: (args, context) => this.ask(args, context),
      run: (args, { agent, timeout, onProgress, signal }) =>
        shells.run(
          agent,
          { ...args, timeout },
          (shell, { offset, data }) => onProgress(shell, offset, data),
          signal,
        ),
      run_ipython: (args, { agent, cwd, timeout, onProgress, signal }) =>
        kernels.run(agent, { ...args, timeout, cwd }, onProgress, signal),
      interrupt: (args, { agent }) =>
        (args.shell === IPYTHON ? kernels : shells).interrupt(agent, args),
      browse: async (args, { timeout, signal }) =>
        (await this.browsing("browse")).browse(args, timeout, signal),
      browse_interactive: async (args, { timeout, signal }) =>
        (await this.browsing("browse_interactive")).interact(args, timeout, signal),
    };
  }

  /** Pieces travel as lines of JSON. */
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
    const answered = await this.parts.started.during(() =>
      this.parts.bridge.ask({ agent, id, request, params, signal, onPiece }),
    );
    return observe("bridge", "", { request, ...answered } as ExtrasOf<"bridge">);
  }

  /** Waits until all capabilities are known. True if a browser was added. */
  async settle(): Promise<boolean> {
    this.canBrowse = (await this.parts.browsing) !== undefined;
    return this.canBrowse;
  }

  /** The capabilities known so far. */
  get capabilities(): string[] {
    const known = Object.keys(this.handlers).sort();
    return this.canBrowse ? known : known.filter((kind) => !BROWSING.has(kind));
  }

  private async browsing(kind: string): Promise<BrowserActions> {
    const browsing = await this.parts.browsing;
    if (!browsing) throw this.notSupported(kind);
    return browsing;
  }

  async admit(action: AgentAction, signal: AbortSignal): Promise<void> {
    this.cwds.set(action, this.cwd(action));
    if (this.handlers[action.action] && confirmation(action) === "confirmed")
      await this.parts.consent.admit(action, signal);
  }

  /** The directory that relative paths of the action start from. */
  cwd(action: AgentAction): string {
    return this.cwds.get(action) ?? this.parts.shells.cwd(this.parts.names.of(action));
  }

  async perform(
    action: AgentAction,
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    const confirmed = confirmation(action);
    if (confirmed === "rejected")
      return observe("user_rejected", "The user refused this action; it was not done", {});
    if (confirmed !== "confirmed") return observe("null", "", {});
    const kind = action.action;
    const handler = this.handlers[kind] as
      ((args: unknown, context: ActionContext) => Promise<ObservationBody>) | undefined;
    if (!handler) throw this.notSupported(kind);
    const timeout = action.timeout ?? undefined;
    const cwd = this.cwd(action);
    const work = handler(action.args, {
      agent: this.parts.names.of(action),
      id: action.id,
      cwd,
      timeout,
      onProgress,
      signal,
    });
    if (timeout === undefined || TIMES_ITSELF.has(kind)) return work;
    return within(work, timeout * 1000, () => outOfTime(kind, timeout));
  }

  approval(answered: ApprovalAnswered): void {
    this.parts.consent.answered(answered);
  }

  ready(): void {
    this.parts.consent.publishAgain();
  }

  end(): void {
    this.parts.kernels.endAll();
    this.parts.shells.endAll();
  }

  private notSupported(kind: string): Failure {
    const why = BROWSING.has(kind) ? `: ${this.parts.whyNoBrowser()}` : "";
    return new Failure(
      "capability.missing",
      `'${kind}' actions are not available in this window${why}; it can do: ${this.capabilities.join(", ")}`,
      { kind },
    );
  }
}

function confirmation(action: AgentAction): string {
  const { confirmation_state: state } = action.args as { confirmation_state?: string };
  return state ?? "confirmed";
}

function outOfTime(kind: string, seconds: number): Failure {
  return new Failure(
    "action.timed_out",
    `The ${kind} action did not finish within ${seconds} seconds; what it had begun may still take effect`,
  );
}
