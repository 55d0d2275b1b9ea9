/** Opens a file that an agent has just changed and highlights the changed lines briefly. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { waitUntilShown, type FileChange } from "../actions/documents";
import { revealTarget } from "./reveal_target";

const HIGHLIGHT_MS = 2500;
/** Milliseconds to wait until the editor shows the new text. After that, nothing is highlighted. */
const FOLLOW_MS = 5000;

interface RevealRequest {
  change: FileChange;
  /** The active tab at the time of the request. */
  tab: string;
}

/**
 * Shows only the newest change, because an agent may be faster than the editor. Does not show a
 * change if the user or another action has opened something else in the meantime.
 */
export class ChangeHighlighter implements Disposable {
  private readonly mark = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("diffEditor.insertedLineBackground"),
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.addedForeground"),
  });
  /** The newest request that is not opened yet. */
  private waitingRequest: RevealRequest | undefined;
  /** The change of the last call of `show`. */
  private newestChange: FileChange | undefined;
  private isOpening = false;
  /** The tab that this class has opened in the active group. */
  private ownTab = "";
  private marked: { editor: vscode.TextEditor; fade: NodeJS.Timeout } | undefined;

  constructor(private readonly log: Log) {}

  show(change: FileChange): void {
    if (isOpenNotebook(change.uri)) return; // its cells show the change already
    this.newestChange = change;
    this.waitingRequest = { change, tab: activeTab() };
    if (!this.isOpening) void this.openNewest();
  }

  dispose(): void {
    clearTimeout(this.marked?.fade);
    this.mark.dispose();
  }

  private async openNewest(): Promise<void> {
    this.isOpening = true;
    for (let request = this.waitingRequest; request; request = this.waitingRequest) {
      this.waitingRequest = undefined;
      const { change } = request;
      const logError = (error: unknown): void =>
        this.log.warn(`the change of ${change.displayPath} could not be shown`, error);
      const document = await this.open(request).catch(logError);
      if (document) void this.highlight(document, change).catch(logError);
    }
    this.isOpening = false;
  }

  /** The document, if it is shown now. VS Code may report its editor a moment later. */
  private async open(request: RevealRequest): Promise<vscode.TextDocument | undefined> {
    const { uri } = request.change;
    const document = await vscode.workspace.openTextDocument(uri);
    if (editorOf(document)) return document;
    if (this.isOvertaken(request)) return undefined;
    const groups = vscode.window.tabGroups.all.map(({ isActive, tabs, activeTab: tab }) => {
      return { isActive, tabCount: tabs.length, isDirty: tab?.isDirty ?? false };
    });
    const target = revealTarget(groups);
    if (!target) return undefined;
    const options = { preserveFocus: true, preview: true };
    if (target === "beside") {
      const viewColumn = vscode.ViewColumn.Beside;
      await vscode.window.showTextDocument(document, { ...options, viewColumn });
      return document;
    }
    this.ownTab = uri.toString();
    // The group was empty when we looked. If the group has a tab by now, `background` makes VS Code
    // open our tab behind that tab. `override: false` opens every kind of file as text.
    const openOptions = { ...options, background: true, override: false };
    await vscode.commands.executeCommand("vscode.open", uri, openOptions);
    return document;
  }

  private isOvertaken({ tab }: RevealRequest): boolean {
    return this.waitingRequest !== undefined || ![tab, this.ownTab].includes(activeTab());
  }

  private async highlight(document: vscode.TextDocument, change: FileChange): Promise<void> {
    const { lines, after } = change;
    if (!lines || !(await waitUntilShown(document, after, FOLLOW_MS))) return;
    const editor = editorOf(document) ?? (await nextEditorOf(document));
    if (!editor || change !== this.newestChange) return;
    const range = document.validateRange(
      new vscode.Range(lines.first, 0, Math.max(lines.end - 1, lines.first), Number.MAX_VALUE),
    );
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    this.unmark();
    editor.setDecorations(this.mark, [range]);
    this.marked = { editor, fade: setTimeout(() => this.unmark(), HIGHLIGHT_MS) };
  }

  private unmark(): void {
    clearTimeout(this.marked?.fade);
    this.marked?.editor.setDecorations(this.mark, []);
    this.marked = undefined;
  }
}

function editorOf(document: vscode.TextDocument): vscode.TextEditor | undefined {
  return vscode.window.visibleTextEditors.find((editor) => editor.document === document);
}

function isOpenNotebook({ fsPath }: vscode.Uri): boolean {
  return vscode.workspace.notebookDocuments.some(({ uri }) => uri.fsPath === fsPath);
}

/** The next editor that shows the document; undefined if there is none for a while. */
function nextEditorOf(document: vscode.TextDocument): Promise<vscode.TextEditor | undefined> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      listening.dispose();
      resolve(editorOf(document));
    };
    const timer = setTimeout(done, FOLLOW_MS);
    const listening = vscode.window.onDidChangeVisibleTextEditors(() => {
      if (editorOf(document)) done();
    });
  });
}

/** Identifies the active tab. The API's own objects are replaced when groups change. */
function activeTab(): string {
  const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
  const { uri } = (tab?.input ?? {}) as { uri?: vscode.Uri };
  return uri?.toString() ?? tab?.label ?? "";
}
