/** Builds the parts that perform actions: shells, browser, kernels, executor, path resolver. */
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { BrowserActions } from "./actions/browser";
import { AgentNames } from "./actions/agent_names";
import { Consent, type Admissions, type ConsentSettings } from "./actions/consent";
import { consentRequest } from "./actions/consent_request";
import { Documents, type FileChange } from "./actions/documents";
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
import type { Questions } from "./consent/questions";
import type { Log } from "./common/log";
import type { HubConnection } from "./hub/connection";
import { Kernels } from "./notebook/kernels";
import { Notebooks } from "./notebook/notebooks";
import { environmentsOf, findPython } from "./notebook/python";
import { setting } from "./settings";
import type { PtyModule } from "./terminal/bash";
import { IntegratedShell } from "./terminal/integrated";
import { KEY } from "./terminal/processes";
import { BashShell } from "./terminal/shell";
import { Shells, type MakeShell } from "./terminal/shells";
import { showShell } from "./terminal/terminal";
import { askForInput } from "./views/questions";

const NO_TERMINAL =
  "Bascule: agents' commands run through VS Code's shell integration in this window, because Bascule's own " +
  "terminals need Linux and VS Code's terminal library. Commands are slower, and some exit codes are unknown.";

const NO_BROWSER = "they need Chromium and a Python with bascule[browser] (setting bascule.python)";

export function buildShells(key: string, log: Log): Shells {
  return new Shells(shellMaker(log), {
    key,
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
function shellMaker(log: Log): MakeShell {
  const wanted = setting("terminal.kind") === "own";
  const pty = wanted && process.platform === "linux" ? bundledPty(log) : undefined;
  if (pty)
    return (order) => {
      const shell = new BashShell(order.name, pty, order.settings, log, order.logFile);
      if (order.isSeen) showShell(shell, order);
      return shell;
    };
  let isTold = !wanted;
  return (order) => {
    if (!isTold) void vscode.window.showWarningMessage(NO_TERMINAL);
    isTold = true;
    return new IntegratedShell(order, log);
  };
}

/** The headless browser beside this window; undefined if no Python with a browser was found. */
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
  return new BrowserWorker(python, chromium, { ...process.env, [KEY]: key }, scope, log);
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
    most: () => setting("ipython.maxKernels"),
    show: (agent, code) => notebooks.show(agent, code),
  });
  const notebooks: Notebooks = new Notebooks({
    directory: path.join(storage, "notebooks"),
    extension: context.extension.id,
    run: (agent, code, view) =>
      kernels.runForUser(agent, { code, cwd: shells.cwd(agent) }, view, askForInput),
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
  onChanged: (change: FileChange) => void;
  bridge: ExecutorParts["bridge"];
  resolver: PathResolver;
  questions: Questions;
  admitted: Admissions;
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
    onChanged,
    bridge,
    log,
  } = parts;
  const { resolver, started } = parts;
  const hub = (): string => connection()?.hub ?? "";
  const names = new AgentNames(hub);
  const documents = new Documents(onChanged);
  const settled = (): Promise<void> => documents.settled();
  const files = new Files(resolver, documents);
  const language = new LanguageFeatures(resolver, settled);
  context.subscriptions.push(language);
  const executor: Executor = new Executor({
    names,
    started,
    whyNoBrowser: () => NO_BROWSER,
    browsing: browser.then((worker) => worker && new BrowserActions(worker, log)),
    shells,
    bridge,
    kernels,
    files,
    editor: new Editor(resolver, documents, files),
    search: new Search(resolver, unsavedTexts, findRipgrep(vscode.env.appRoot)),
    language,
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
        consentRequest(action, { resolver, cwd: executor.cwd(action), hub: hub() }),
      questions: parts.questions,
      publish: (question) => connection()?.ask(question),
      publishAnswer: (answered) => connection()?.answered(answered),
      onRefused: parts.onRefused,
    }),
  });
  return executor;
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

function roots(): string[] {
  return (vscode.workspace.workspaceFolders ?? [])
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => folder.uri.fsPath);
}
