/** Reads the machine's settings. package.json has their defaults. */
import * as vscode from "vscode";
import { findBascule } from "./common/nets";
import type { EvolveSettings, Settings } from "./manifest";

let known: vscode.WorkspaceConfiguration | undefined;

/** Cached until a setting changes: `getConfiguration` copies all settings on every call. */
export function setting<K extends keyof Settings>(name: K): Settings[K] {
  known ??= vscode.workspace.getConfiguration("bascule");
  return known.get(name) as Settings[K];
}

/** Drops the cached settings when one changes. Call once, before the first `setting`. */
export function watchSettings(): vscode.Disposable {
  return vscode.workspace.onDidChangeConfiguration((change) => {
    if (change.affectsConfiguration("bascule")) known = undefined;
  });
}

export function evolveSetting<K extends keyof EvolveSettings>(name: K): EvolveSettings[K] {
  return vscode.workspace.getConfiguration("evolve").get(name) as EvolveSettings[K];
}

/** The Python that has bascule, or empty for the `bascule` command; see `findBascule`. */
export function basculePython(): string {
  const folders = (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri.fsPath);
  return findBascule(setting("python"), vscode.workspace.isTrusted ? folders : []);
}
