/** Builds the parts that perform actions: shells, browser, kernels, executor, path resolver. */
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { BrowserActions } from "./actions/browser";
import { AgentNames } from "./actions/agent_names";
import { CommandReviewer } from "./actions/command_rules";
import { Consent, type Admissions, type ConsentSettings } from "./actions/consent";
import { consentRequest } from "./actions/consent_request";
import type { Documents } from "./actions/documents";
import { Editor } from "./actions/editor";
import { Executor, type ExecutorParts } from "./actions/executor";
import { Files } from "./actions/files";
import { LanguageFeatures } from "./actions/language";
import { PathResolver } from "./actions/paths";
import { findRipgrep, Search } from "./actions/search";
import type { StartedByAgents } from "./actions/started_by_agents";
import type { VirtualDocuments } from "./actions/virtual_documents";
import { unsavedTexts } from "./actions/unsaved_changes";
import { WindowActions } from "./actions/window";
import { BrowserWorker, findChromium, type BrowserScope } from "./browser/browser_worker";
import { messageOf } from "./common/failure";
import type { Checkpoints } from "./checkpoints/checkpoints";
import type { Questions } from "./consent/questions";
import { personFile, RuleSources } from "./consent/rule_sources";
import { withoutLinks } from "./consent/visible_text";
import type { Log } from "./common/log";
import type { HubConnection } from "./hub/connection";
import type { AgentAction } from "./hub/messages";
import { AgentBreakpoints } from "./agent_debugging/agent_breakpoints";
import { AgentDebugger } from "./agent_debugging/agent_debugger";
import { configurationOf, startsTasks } from "./agent_debugging/launch_configurations";
import { CodeActionFinder } from "./language/code_actions";
import { CodeChanges } from "./language/code_changes";
import { LanguageDocuments } from "./language/language_documents";
import { LanguageServers } from "./language/language_servers";
import { Lookups } from "./language/lookups";
import { Refactorings } from "./language/refactorings";
import { NotebookCells } from "./notebook_cells/notebook_cells";
import { Kernels } from "./notebook/kernels";
import { Notebooks } from "./notebook/notebooks";
import { environmentsOf, findPython } from "./notebook/python";
import type { ArgsOf } from "./protocol";
import type { CommandRule } from "./rules/rule_matching";
import { setting } from "./settings";
import { AgentGit } from "./source_control/agent_git";
import { AgentTasks } from "./tasks/agent_tasks";
import { UserTerminals } from "./tasks/user_terminals";
import { AgentTests } from "./tests/agent_tests";
import type { PtyModule } from "./terminal/bash";
import { IntegratedShell } from "./terminal/integrated";
import { MARK_VARIABLE } from "./terminal/processes";
import { BashShell } from "./terminal/shell";
import { Shells, type MakeShell } from "./terminal/shells";
import { showShell } from "./terminal/terminal";
import { askForInput } from "./views/questions";
import { WindowView } from "./window_view/window_view";

const NO_TERMINAL =
  "Bascule: agents' commands run through VS Code's shell integration in this window, because Bascule's own " +
  "terminals need Linux and VS Code's terminal library. Commands are slower, and some exit codes are unknown.";

const NO_BROWSER =
  "browser actions need Chromium and a Python with bascule[browser] (setting bascule.python)";

export function buildShells(key: string, log: Log): Shells {
  const { makeShell, canInspect } = shellMaker(log);
  return new Shells(makeShell, {
    key,
    canInspect,
    workingDir: () => roots()[0] ?? os.homedir(),
    limits: () => ({
      softSeconds: setting("terminal.softTimeout"),
      outputLimit: setting("terminal.outputLimit"),
      logLimit: setting("terminal.logLimit"),
      maxShells: setting("terminal.maxShells"),
    }),
  });
}

/** Bascule's own terminals where possible, otherwise VS Code's ordinary terminals. */
function shellMaker(log: Log): { makeShell: MakeShell; canInspect: boolean } {
  const isWanted = setting("terminal.kind") === "own";
  const pty = isWanted && process.platform === "linux" ? bundledPty(log) : undefined;
  if (pty) {
    const makeShell: MakeShell = (request) => {
      const shell = new BashShell(request.name, pty, request.settings, log, request.logFile);
      if (request.isVisible) showShell(shell, request);
      return shell;
    };
    return { makeShell, canInspect: true };
  }
  let mustWarn = isWanted;
  const makeShell: MakeShell = (request) => {
    if (mustWarn) void vscode.window.showWarningMessage(NO_TERMINAL);
    mustWarn = false;
    return new IntegratedShell(request, log);
  };
  return { makeShell, canInspect: false };
}

/** The rules for commands: those of the user and those of the workspace. */
export function buildRuleSources(log: Log): RuleSources {
  const sources = new RuleSources({
    personFile: personFile(),
    folders: roots,
    onProblem: (message) => {
      log.warn(message);
      void vscode.window.showWarningMessage(
        `Bascule: rules for commands: ${withoutLinks(message)}`,
      );
    },
  });
  sources.current(); // reports problems now, not with the first command
  return sources;
}

/** The headless browser for agents; undefined if no Python with a browser was found. */
export async function buildBrowser(
  key: string,
  hub: () => string,
  log: Log,
): Promise<BrowserWorker | undefined> {
  const found = await findBrowser(log);
  if (!found) return undefined;
  const { python, chromium } = found;
  const scope = (): BrowserScope => ({
    working_dir: roots()[0] ?? os.homedir(),
    roots: [...roots(), ...setting("allowOutside")],
    refused: [setting("hub"), hub()].flatMap(addressOf),
  });
  return new BrowserWorker(python, chromium, { ...process.env, [MARK_VARIABLE]: key }, scope, log);
}

/** Python environments of the workspace are used only if the user trusts the workspace. */
async function findBrowser(log: Log): Promise<{ python: string; chromium: string } | undefined> {
  const own = vscode.workspace.isTrusted ? roots().flatMap(environmentsOf) : [];
  const pythons = setting("python") ? [setting("python")] : [...own, "python3"];
  for (const python of pythons) {
    const chromium = await findChromium(python, log);
    if (chromium) return { python, chromium };
  }
  return undefined;
}

function addressOf(url: string): [string, number][] {
  if (!URL.canParse(url)) return [];
  const { hostname, port, protocol } = new URL(url);
  return [[hostname, Number(port) || (protocol === "https:" ? 443 : 80)]];
}

/** Agents' kernels, and the notebooks that show their cells to the user. */
export function buildKernels(
  context: vscode.ExtensionContext,
  shells: Shells,
  storage: string,
  log: Log,
): { kernels: Kernels; notebooks: Notebooks } {
  const kernels: Kernels = new Kernels({
    kernel: (agent, number) => {
      const workingDir = roots()[0] ?? os.homedir();
      return {
        python: () => findPython(setting("python"), workingDir),
        script: path.join(context.extensionPath, "dist/ipython_worker.py"),
        directory: path.join(shells.temporaryDirectory, `ipython-${number}`),
        logFile: shells.logFile(agent, "ipython"),
        logLimit: setting("terminal.logLimit"),
        outputLimit: setting("terminal.outputLimit"),
        workingDir,
        env: shells.environment(),
        followShell: setting("ipython.followShell"),
      };
    },
    maxKernels: () => setting("ipython.maxKernels"),
    show: (agent, code) => notebooks.show(agent, code),
  });
  const notebooks: Notebooks = new Notebooks({
    directory: path.join(storage, "notebooks"),
    extension: context.extension.id,
    run: (agent, code, view, signal) =>
      kernels.runForUser(agent, { code, cwd: shells.cwd(agent) }, view, askForInput, signal),
    runIn: (file, code, view, signal) =>
      kernels.runForUser(file, { code, cwd: path.dirname(file) }, view, askForInput, signal),
    interrupt: (agent) => kernels.interrupt(agent, {}),
    log,
  });
  return { kernels, notebooks };
}

export function buildExecutor(parts: {
  context: vscode.ExtensionContext;
  browser: Promise<BrowserWorker | undefined>;
  shells: Shells;
  kernels: Kernels;
  virtualDocuments: VirtualDocuments;
  connection: () => HubConnection | undefined;
  documents: Documents;
  acting: ExecutorParts["actingAgent"];
  review: ExecutorParts["review"];
  checkpoints: Checkpoints;
  bridge: ExecutorParts["bridge"];
  resolver: PathResolver;
  questions: Questions;
  admitted: Admissions;
  rules: RuleSources;
  started: StartedByAgents;
  onRefused: ConsentSettings["onRefused"];
  log: Log;
}): Executor {
  const {
    context,
    browser,
    shells,
    kernels,
    virtualDocuments,
    connection,
    documents,
    bridge,
    log,
  } = parts;
  const { resolver, started, rules, checkpoints } = parts;
  const hub = (): string => connection()?.hub ?? "";
  const names = new AgentNames(hub);
  const tests = new AgentTests({
    folders: roots,
    commands: () => setting("testCommands"),
    allowed: async (path, cwd) => (await resolver.find(path, cwd)).displayPath,
    directory: () => shells.temporaryDirectory,
    run: (agent, command, signal) => shells.run(agent, command, () => undefined, signal),
  });
  const lineOf = (action: AgentAction): { line: string; cwd: string } | undefined => {
    const plan = tests.planOf(action);
    return plan && { line: plan.line, cwd: plan.command.directory };
  };
  const startsTasksOf = (action: AgentAction): boolean => {
    const launch = debugging.launchOf(action, names.nameOf(action));
    return launch !== undefined && startsTasks(launch);
  };
  const reviewer = new CommandReviewer({
    sources: rules,
    folders: roots,
    shells,
    nameOf: (action) => names.nameOf(action),
    lineOf,
    startsTasks: startsTasksOf,
  });
  const settled = (): Promise<void> => documents.settled();
  const files = new Files(resolver, documents);
  const languageDocuments = new LanguageDocuments(resolver, documents);
  const servers = new LanguageServers();
  const language = new LanguageFeatures(resolver, languageDocuments, servers, settled);
  const codeActions = new CodeActionFinder();
  const debugging = new AgentDebugger(
    new AgentBreakpoints(languageDocuments),
    languageDocuments,
    (work) => started.recordDuring(work),
    log,
  );
  const tasks = new AgentTasks((execution) => started.recordTask(execution));
  const terminals = new UserTerminals();
  const git = new AgentGit(resolver, settled);
  context.subscriptions.push(language, servers, codeActions, debugging, tasks, terminals);
  const isGranted = (action: AgentAction): boolean =>
    terminals.isGranted(action, names.nameOf(action));
  const cells = new NotebookCells(resolver, documents);
  const executor: Executor = new Executor({
    names,
    started,
    actingAgent: parts.acting,
    review: parts.review,
    checkpoints,
    absolute: (path, cwd) => resolver.absolute(path, cwd),
    whyNoBrowser: () => NO_BROWSER,
    browser: browser.then((worker) => worker && new BrowserActions(worker, log)),
    shells,
    bridge,
    kernels,
    files,
    editor: new Editor(resolver, documents, files),
    search: new Search(resolver, unsavedTexts, findRipgrep(vscode.env.appRoot)),
    language,
    lookups: new Lookups(languageDocuments, servers, codeActions),
    refactorings: new Refactorings(
      languageDocuments,
      servers,
      codeActions,
      new CodeChanges(resolver, documents),
      (work) => started.recordDuring(work),
    ),
    debugger: debugging,
    tests,
    cells,
    tasks,
    terminals,
    git,
    view: new WindowView(() => setting("sessionSocket")),
    window: new WindowActions(
      resolver,
      virtualDocuments,
      () => setting("allowedCommands"),
      settled,
    ),
    consent: new Consent({
      isTrusted: () => vscode.workspace.isTrusted,
      rules: () => setting("consent"),
      admitted: parts.admitted,
      keyOf: (action) => names.keyOf(action),
      describe: (action) =>
        consentRequest(action, {
          resolver,
          cwd: executor.cwd(action),
          hub: hub(),
          limitNotes: checkpoints.limitNotes,
          restored: (args) => restoredPaths(checkpoints, args),
          launch: (args) => configurationOf(args).configuration,
          lineOf,
          shownArguments: async ({ action: kind, args }) => ({
            ...(await tasks.shownArguments(action)),
            ...(await terminals.shownArguments(action)),
            ...(await git.shownArguments(action)),
            ...(kind === "run_cells"
              ? { code: await cells.codeToRun(args, executor.cwd(action)) }
              : {}),
          }),
        }),
      commands: {
        review: (action) => reviewer.review(action),
        confirm: (action, review) => reviewer.confirm(action, review),
        readsOutput: (action) => reviewer.readsOutput(action) || isGranted(action),
        cannotJudge: (action) =>
          reviewer.cannotJudge(action) || (readsTerminal(action) && !isGranted(action)),
        startsTasks: startsTasksOf,
        countUsedRules: (review) => reviewer.countUsedRules(review),
        allowAlways: (action, allowed) => allowAlways(rules, action.agent, allowed),
        rulesFile: rules.personFile,
      },
      questions: parts.questions,
      publish: (question) => connection()?.ask(question),
      publishAnswer: (answered) => connection()?.answered(answered),
      onRefused: parts.onRefused,
    }),
  });
  return executor;
}

/** Only a setting for this kind of action permits it without a question. */
function readsTerminal({ action }: AgentAction): boolean {
  return action === "read_terminal" && setting("consent").read_terminal !== "allow";
}

/** The absolute paths that a restore would change. */
async function restoredPaths(
  checkpoints: Checkpoints,
  args: Readonly<Record<string, unknown>>,
): Promise<string[]> {
  const plan = await checkpoints.ask("restore", {
    ...(args as ArgsOf<"restore">),
    dry_run: true,
  });
  const { restored = [], removed = [] } = plan.extras;
  return [...restored, ...removed].map((each) => path.join(roots()[0] ?? "", each));
}

/**
 * Stores allow rules after the answer "always". If that fails, an error message tells the user, and
 * the command still runs.
 */
async function allowAlways(
  sources: RuleSources,
  agent: string,
  rules: readonly CommandRule[],
): Promise<void> {
  const date = new Date().toISOString().slice(0, 10);
  const why = `Allowed on ${date} in ${vscode.workspace.name ?? "a window"}`;
  try {
    await sources.add({ rules, agent, why });
  } catch (error) {
    const text = `Bascule: the rules could not be added to ${sources.personFile}: ${messageOf(error)}`;
    void vscode.window.showErrorMessage(withoutLinks(text));
  }
}

export function buildPathResolver(shells: Shells): PathResolver {
  return new PathResolver({
    roots: () => [...roots(), ...setting("allowOutside")],
    isReadable: (real) => shells.isLog(real),
  });
}

/** VS Code's bundled node-pty; undefined if it is missing. */
function bundledPty(log: Log): PtyModule | undefined {
  for (const modules of ["node_modules", "node_modules.asar"]) {
    try {
      // eslint-disable-next-line @typescript-eslint/no-require-imports -- its path is known at run time only
      return require(path.join(vscode.env.appRoot, modules, "node-pty")) as PtyModule;
    } catch (error) {
      log.debug(`no node-pty in ${modules}: ${messageOf(error)}`);
    }
  }
  log.warn("this VS Code has no bundled terminal library (node-pty)");
  return undefined;
}

/** The folders of the workspace. */
export function roots(): string[] {
  return (vscode.workspace.workspaceFolders ?? [])
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => folder.uri.fsPath);
}
