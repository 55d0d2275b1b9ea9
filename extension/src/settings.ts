/** What the settings of this machine say; package.json has a default for each. */
import * as vscode from "vscode";
import { findBascule } from "./common/nets";
import type { EvolveSettings, Settings } from "./manifest";

let known: vscode.WorkspaceConfiguration | undefined;

/** VS Code copies all there is for every question, so what it said is kept until it changes. */
export function setting<K extends keyof Settings>(name: K): Settings[K] {
  known ??= vscode.workspace.getConfiguration("bascule");
  return known.get(name) as Settings[K];
}

/** To be called once, before the first question. */
export function watchSettings(): vscode.Disposable {
  return vscode.workspace.onDidChangeConfiguration((change) => {
    if (change.affectsConfiguration("bascule")) known = undefined;
  });
}

export function evolveSetting<K extends keyof EvolveSettings>(name: K): EvolveSettings[K] {
  return vscode.workspace.getConfiguration("evolve").get(name) as EvolveSettings[K];
}

/** The Python that has bascule, empty for the command; see `findBascule`. To be asked in trusted workspaces. */
export function basculePython(): string {
  const folders = (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri.fsPath);
  return findBascule(setting("python"), vscode.workspace.isTrusted ? folders : []);
}
