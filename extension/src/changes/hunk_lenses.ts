/** "Keep | Undo" above each change of an agent. */
import * as vscode from "vscode";
import { CommandId } from "../manifest";
import { hunksBetween, lineOf, linesOfText, shownHunk, type ShownHunk } from "../review/hunks";
import type { PendingChanges } from "./pending_changes";

/** The argument of a command above a change: the change as it was shown. */
export interface LensTarget {
  path: string;
  shown: ShownHunk;
}

export class HunkLenses implements vscode.CodeLensProvider {
  constructor(
    private readonly changes: PendingChanges,
    readonly onDidChangeCodeLenses: vscode.Event<void>,
  ) {}

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const file = this.changes.find(document.uri.fsPath);
    if (!file || file.removed) return [];
    const text = linesOfText(document.getText());
    return hunksBetween(file.base, text).flatMap((hunk) => {
      const target: LensTarget = { path: file.path, shown: shownHunk(file.base, text, hunk) };
      const line = lineOf(hunk, text);
      const range = new vscode.Range(line, 0, line, 0);
      const tooltip = `Changed by ${file.agents.join(", ")}`;
      const lens = (command: string, title: string): vscode.CodeLens =>
        new vscode.CodeLens(range, { command, title, tooltip, arguments: [target] });
      return [
        lens(CommandId.keepChange, "$(check) Keep"),
        lens(CommandId.undoChange, `$(discard) Undo${deletion(target.shown)}`),
      ];
    });
  }
}

/** Removed lines are not visible in the editor. */
function deletion({ removed, added }: ShownHunk): string {
  if (added.length) return "";
  return ` (${removed.length} ${removed.length === 1 ? "line" : "lines"} deleted)`;
}
