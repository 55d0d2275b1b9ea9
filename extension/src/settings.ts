import * as vscode from "vscode";
import type { EvolveSettings, Settings } from "./manifest";

/** What the settings of this machine say; package.json has a default for each. */
export function setting<K extends keyof Settings>(name: K): Settings[K] {
  return vscode.workspace.getConfiguration("bascule").get(name) as Settings[K];
}

export function evolveSetting<K extends keyof EvolveSettings>(name: K): EvolveSettings[K] {
  return vscode.workspace.getConfiguration("evolve").get(name) as EvolveSettings[K];
}
