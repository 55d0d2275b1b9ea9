/** Code lenses above a net: Run, Debug, Draw. */
import * as vscode from "vscode";
import { CommandId } from "../manifest";

const ROOT = /^\s*(?:"?pnml"?\s*:|<pnml\b)/;

const LENSES = [
  ["$(play) Run", CommandId.runNet],
  ["$(debug-alt) Debug", CommandId.debugNet],
  ["$(type-hierarchy) Draw", CommandId.showNet],
] as const;

export const netCodeLenses: vscode.CodeLensProvider = {
  provideCodeLenses(document) {
    const line = rootLine(document);
    if (line === undefined) return [];
    const range = document.lineAt(line).range;
    return LENSES.map(
      ([title, command]) =>
        new vscode.CodeLens(range, { title, command, arguments: [document.uri] }),
    );
  },
};

function rootLine(document: vscode.TextDocument): number | undefined {
  for (let line = 0; line < document.lineCount; line++)
    if (ROOT.test(document.lineAt(line).text)) return line;
  return undefined;
}
