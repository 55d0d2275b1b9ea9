/** Puts the parts together that do actions. */
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { Consent } from "./actions/consent";
import { Documents, type Change } from "./actions/documents";
import { Editor } from "./actions/editor";
import { Executor } from "./actions/executor";
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
import { Shells } from "./terminal/shells";
import { askInWindow } from "./views/questions";

export function buildShells(key: string, log: Log): { shells: Shells; canRun: boolean } {
  const pty = process.platform === "linux" ? bundledPty(log) : undefined;
  const shells = new Shells(
    pty,
    {
      key,
      workingDir: () => roots()[0] ?? os.homedir(),
      limits: () => ({
        softSeconds: setting("terminal.softTimeout"),
        outputLimit: setting("terminal.outputLimit"),
        logLimit: setting("terminal.logLimit"),
        maxShells: setting("terminal.maxShells"),
      }),
    },
    log,
  );
  return { shells, canRun: pty !== undefined };
}

export function buildExecutor(parts: {
  context: vscode.ExtensionContext;
  shells: Shells;
  canRun: boolean;
  texts: Texts;
  connection: () => Connection | undefined;
  onChanged: (change: Change) => void;
  log: Log;
}): Executor {
  const { context, shells, canRun, texts, connection, onChanged, log } = parts;
  const places = new Places({
    roots: () => [...roots(), ...setting("allowOutside")],
    isReadable: (real) => shells.isLog(real),
  });
  const documents = new Documents(onChanged, log);
  const files = new Files(places, documents);
  return new Executor({
    shells,
    canRun,
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
  log.warn("this VS Code brings no terminal library: agents cannot run commands here");
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
