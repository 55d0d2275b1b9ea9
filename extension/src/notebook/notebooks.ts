/**
 * Notebooks that show agents' cells and let the user run cells in the same kernel. They are
 * ordinary `.ipynb` files in the extension's storage, so nothing is lost when one is closed.
 */
import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { within } from "../common/deadline";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { ShownCell } from "./shown_cell";
import type { CellView } from "./kernel";

const TYPE = "jupyter-notebook";
const CONTROLLER = "bascule.ipython";
const EMPTY = JSON.stringify({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 });
/** Maximum cells of a notebook; the oldest are removed first. */
const MAX_CELLS = 200;
/**
 * Milliseconds for VS Code to open a notebook with our controller, or to add a cell. Long, because
 * a busy machine opens the first notebook of a window slowly, and cells do not wait for this.
 */
const OPEN_MS = 60_000;

export interface NotebooksSettings {
  directory: string;
  /** Our extension's id. */
  extension: string;
  /** Runs a cell of the user. */
  run: (agent: string, code: string, view: CellView) => Promise<void>;
  interrupt: (agent: string) => Promise<unknown>;
  log: Log;
}

export class Notebooks implements Disposable {
  private readonly owned = new Disposables();
  private readonly controller: vscode.NotebookController;
  private readonly opening = new Map<string, Promise<vscode.NotebookDocument>>();
  /** The previous cell of each agent, which must be added before the next one. */
  private readonly turns = new Map<string, Promise<unknown>>();

  constructor(private readonly settings: NotebooksSettings) {
    const label = "Bascule";
    this.controller = vscode.notebooks.createNotebookController(CONTROLLER, TYPE, label);
    this.controller.description = "the kernel of an agent";
    this.controller.supportedLanguages = ["python"];
    this.controller.supportsExecutionOrder = true;
    this.controller.executeHandler = (cells, notebook) => this.runForUser(cells, notebook);
    this.controller.interruptHandler = async (notebook) => {
      const agent = this.agentOf(notebook);
      if (agent !== undefined) await settings.interrupt(agent);
    };
    this.owned.add(this.controller);
  }

  /** Shows an agent's cell. Errors are only logged; the cell runs anyway. */
  show(agent: string, code: string): CellView {
    const before = this.turns.get(agent) ?? Promise.resolve();
    const shown = before.then(() => this.add(agent, code));
    this.turns.set(
      agent,
      shown.catch(() => undefined),
    );
    const save = (): void => void this.save(agent).catch((error: unknown) => this.logError(error));
    return new ShownCell(shown, (error) => this.logError(error), save);
  }

  dispose(): void {
    this.owned.dispose();
  }

  private async add(agent: string, code: string): Promise<vscode.NotebookCellExecution> {
    const notebook = await this.open(agent);
    const at = notebook.cellCount;
    const edit = new vscode.WorkspaceEdit();
    const cell = new vscode.NotebookCellData(vscode.NotebookCellKind.Code, code, "python");
    const edits = [vscode.NotebookEdit.insertCells(at, [cell])];
    if (at >= MAX_CELLS)
      edits.push(vscode.NotebookEdit.deleteCells(new vscode.NotebookRange(0, at + 1 - MAX_CELLS)));
    edit.set(notebook.uri, edits);
    const adding = Promise.resolve(vscode.workspace.applyEdit(edit));
    if (!(await within(adding, OPEN_MS, () => new Error("VS Code did not add the cell in time"))))
      throw new Error("VS Code refused to add the cell");
    const added = notebook.cellAt(notebook.cellCount - 1);
    const execution = this.controller.createNotebookCellExecution(added);
    execution.start(Date.now());
    await execution.clearOutput();
    this.reveal(notebook);
    return execution;
  }

  /** The agent's notebook, opened in an editor with our controller. */
  private async open(agent: string): Promise<vscode.NotebookDocument> {
    const file = this.fileOf(agent);
    const known = this.opening.get(file);
    if (known) {
      const notebook = await known.catch(() => undefined);
      if (notebook && !notebook.isClosed) return notebook;
    }
    // If the editor is closed while it opens, VS Code may never answer.
    const timedOut = (): Error =>
      new Error("VS Code did not show the notebook with our controller");
    const opening = within(this.openAnew(file), OPEN_MS, timedOut);
    this.opening.set(file, opening);
    return opening;
  }

  private async openAnew(file: string): Promise<vscode.NotebookDocument> {
    await fs.mkdir(this.settings.directory, { recursive: true });
    await fs.writeFile(file, EMPTY, { flag: "wx" }).catch(() => undefined); // it may exist already
    const notebook = await vscode.workspace.openNotebookDocument(vscode.Uri.file(file));
    const preferred = vscode.NotebookControllerAffinity.Preferred;
    this.controller.updateNotebookAffinity(notebook, preferred);
    let selected = (): void => undefined;
    const selecting = new Promise<void>((resolve) => (selected = resolve));
    const listening = this.controller.onDidChangeSelectedNotebooks((change) => {
      if (change.notebook === notebook && change.selected) selected();
    });
    try {
      // Do not cover the editor that the user reads.
      const isFree = vscode.window.tabGroups.activeTabGroup.tabs.length === 0;
      const free = isFree ? vscode.ViewColumn.Active : vscode.ViewColumn.Beside;
      const { visibleNotebookEditors } = vscode.window;
      const shown = visibleNotebookEditors.find((editor) => editor.notebook === notebook);
      const viewColumn = shown?.viewColumn ?? free;
      const options = { preserveFocus: true, preview: false, viewColumn };
      const notebookEditor = await vscode.window.showNotebookDocument(notebook, options);
      const { extension } = this.settings;
      const choice = { notebookEditor, id: CONTROLLER, extension };
      await vscode.commands.executeCommand("notebook.selectKernel", choice);
      await selecting;
    } finally {
      listening.dispose();
    }
    return notebook;
  }

  private reveal(notebook: vscode.NotebookDocument): void {
    const last = new vscode.NotebookRange(notebook.cellCount - 1, notebook.cellCount);
    for (const editor of vscode.window.visibleNotebookEditors)
      if (editor.notebook === notebook)
        editor.revealRange(last, vscode.NotebookEditorRevealType.InCenterIfOutsideViewport);
  }

  private async runForUser(
    cells: vscode.NotebookCell[],
    notebook: vscode.NotebookDocument,
  ): Promise<void> {
    const agent = this.agentOf(notebook);
    for (const cell of cells) {
      const execution = this.controller.createNotebookCellExecution(cell);
      execution.start(Date.now());
      await execution.clearOutput();
      const save = (): void => void notebook.save();
      const shown = Promise.resolve(execution);
      const view = new ShownCell(shown, (error) => this.logError(error), save);
      if (agent === undefined)
        view.over({ name: "NoAgent", value: "this notebook does not belong to an agent" });
      else await this.settings.run(agent, cell.document.getText(), view).catch(() => undefined);
    }
  }

  private async save(agent: string): Promise<void> {
    const notebook = await this.opening.get(this.fileOf(agent));
    if (notebook && !notebook.isClosed) await notebook.save();
  }

  private fileOf(agent: string): string {
    return path.join(this.settings.directory, `${encodeURIComponent(agent)}.ipynb`);
  }

  private agentOf(notebook: vscode.NotebookDocument): string | undefined {
    const file = notebook.uri.fsPath;
    if (path.dirname(file) !== this.settings.directory) return undefined;
    return decodeURIComponent(path.basename(file, ".ipynb"));
  }

  private logError(error: unknown): void {
    this.settings.log.warn("a cell is not shown in its notebook", error);
  }
}
