/** Puts the parts together that do actions. */
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { Consent } from "./actions/consent";
import { Documents, type Change } from "./actions/documents";
import { Editor } from "./actions/editor";
import { Executor, type Parts } from "./actions/executor";
import { Files } from "./actions/files";
import { Language } from "./actions/language";
import { Places } from "./actions/places";
import { findRipgrep, Search } from "./actions/search";
import type { Texts } from "./actions/texts";
import { WindowActions } from "./actions/window";
import { messageOf } from "./common/failure";
import type { Log } from "./common/log";
import type { Connection } from "./hub/connection";
import { Stored } from "./manifest";
import { setting } from "./settings";
import type { PtyModule } from "./terminal/bash";
import { IntegratedShell } from "./terminal/integrated";
import { BashShell } from "./terminal/shell";
import { Shells, type MakeShell } from "./terminal/shells";
import { showShell } from "./terminal/terminal";
import { askInWindow } from "./views/questions";

const NO_TERMINAL =
  "Bascule: agents' commands run through VS Code's shell integration here, since a terminal of their own " +
  "needs Linux and VS Code's terminal library. They are slower, and the status of some is unknown.";

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

/** Terminals of our own where they can be had, else VS Code's ordinary ones. */
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

export function buildExecutor(parts: {
  context: vscode.ExtensionContext;
  shells: Shells;
  texts: Texts;
  connection: () => Connection | undefined;
  onChanged: (change: Change) => void;
  bridge: Parts["bridge"];
  log: Log;
}): Executor {
  const { context, shells, texts, connection, onChanged, bridge, log } = parts;
  const places = new Places({
    roots: () => [...roots(), ...setting("allowOutside")],
    isReadable: (real) => shells.isLog(real),
  });
  const documents = new Documents(onChanged, log);
  const files = new Files(places, documents);
  return new Executor({
    shells,
    bridge,
    files,
    editor: new Editor(places, documents, files),
    search: new Search(places, unsavedTexts, findRipgrep(vscode.env.appRoot)),
    language: new Language(places),
    window: new WindowActions(places, texts, () => setting("allowedCommands")),
    consent: new Consent({
      isTrusted: () => vscode.workspace.isTrusted,
      rules: () => setting("consent"),
      admitted: admittedAgents(context.workspaceState),
      ask: askInWindow,
      publish: (question) => connection()?.ask(question),
      publishAnswer: (answered) => connection()?.answered(answered),
    }),
  });
}

/** VS Code's own terminal library; nothing where it is missing. */
function bundledPty(log: Log): PtyModule | undefined {
  for (const modules of ["node_modules", "node_modules.asar"]) {
    try {
      // eslint-disable-next-line @typescript-eslint/no-require-imports -- its place is known at run time only
      return require(path.join(vscode.env.appRoot, modules, "node-pty")) as PtyModule;
    } catch (error) {
      log.debug(`no node-pty in ${modules}: ${messageOf(error)}`);
    }
  }
  log.warn("this VS Code brings no terminal library");
  return undefined;
}

function roots(): string[] {
  return (vscode.workspace.workspaceFolders ?? [])
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => folder.uri.fsPath);
}

function unsavedTexts(): Map<string, string> {
  const dirty = vscode.workspace.textDocuments.filter(
    (document) => document.isDirty && document.uri.scheme === "file",
  );
  return new Map(dirty.map((document) => [document.uri.fsPath, document.getText()]));
}

function admittedAgents(state: vscode.Memento): {
  has(agent: string): boolean;
  add(agent: string): void;
} {
  const all = (): string[] => state.get<string[]>(Stored.admitted, []);
  return {
    has: (agent) => all().includes(agent),
    add: (agent) => void state.update(Stored.admitted, [...new Set([...all(), agent])]),
  };
}
