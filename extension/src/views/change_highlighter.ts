/** Opens a file that an agent has just changed and highlights the changed lines briefly. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { shows, type FileChange } from "../actions/documents";

const MARK_MS = 2500;
/** Milliseconds to wait until the editor shows the file on disk; later, nothing is highlighted. */
const FOLLOW_MS = 5000;

/** Skips to the newest change: an agent may be faster than the editor. */
export class ChangeHighlighter implements Disposable {
  private readonly mark = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("diffEditor.insertedLineBackground"),
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.addedForeground"),
  });
  private next: FileChange | undefined;
  private showing = false;
  private fade: NodeJS.Timeout | undefined;

  constructor(private readonly log: Log) {}

  show(change: FileChange): void {
    this.next = change;
    if (!this.showing) void this.showAll();
  }

  dispose(): void {
    clearTimeout(this.fade);
    this.mark.dispose();
  }

  private async showAll(): Promise<void> {
    this.showing = true;
    try {
      for (let change = this.next; change; change = this.next) {
        this.next = undefined;
        await this.reveal(change);
      }
    } catch (error) {
      this.log.warn("a change could not be shown", error);
    } finally {
      this.showing = false;
    }
  }

  private async reveal({ uri, after, lines }: FileChange): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uri);
    const editor = await vscode.window.showTextDocument(document, {
      preserveFocus: true,
      preview: true,
    });
    if (!lines || !(await shows(document, after, FOLLOW_MS))) return;
    const range = document.validateRange(
      new vscode.Range(lines.first, 0, Math.max(lines.end - 1, lines.first), Number.MAX_VALUE),
    );
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    editor.setDecorations(this.mark, [range]);
    clearTimeout(this.fade);
    this.fade = setTimeout(() => editor.setDecorations(this.mark, []), MARK_MS);
  }
}
