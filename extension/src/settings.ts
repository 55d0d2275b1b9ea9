import * as vscode from "vscode";
import type { Settings } from "./manifest";

/** What the settings of this machine say; package.json has a default for each. */
export function setting<K extends keyof Settings>(name: K): Settings[K] {
  return vscode.workspace.getConfiguration("bascule").get(name) as Settings[K];
}
