/**
 * Notebooks that show agents' cells and let the user run cells in the same kernel. They are
 * ordinary `.ipynb` files in the extension's storage, so nothing is lost when one is closed. Any
 * other notebook can use the same controller; then it gets a kernel of its own.
 */
import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { within } from "../common/deadline";
import { Disposables, type Disposable } from "../common/disposables";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { ShownCell } from "./shown_cell";
import type { CellView } from "./kernel";
import type { CellError } from "./kernel_worker";

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
  /** Runs a cell of the user in the kernel of an agent. `signal` aborts only before it begins. */
  run: (agent: string, code: string, view: CellView, signal: AbortSignal) => Promise<void>;
  /** Runs a cell of a notebook that belongs to no agent, in a kernel of its own. */
  runIn: (file: string, code: string, view: CellView, signal: AbortSignal) => Promise<void>;
  /** Interrupts the kernel of an agent or of a notebook. */
  interrupt: (agentOrFile: string) => Promise<unknown>;
  log: Log;
}

export class Notebooks implements Disposable {
  private readonly owned = new Disposables();
  private readonly controller: vscode.NotebookController;
  private readonly opening = new Map<string, Promise<vscode.NotebookDocument>>();
  /** The previous cell of each agent, which must be added before the next one. */
  private readonly turns = new Map<string, Promise<unknown>>();
  /** Aborted by the next interrupt of the notebook. */
  private readonly interrupts = new WeakMap<vscode.NotebookDocument, AbortController>();

  constructor(private readonly settings: NotebooksSettings) {
    const label = "Bascule";
    this.controller = vscode.notebooks.createNotebookController(CONTROLLER, TYPE, label);
    this.controller.description = "IPython";
    this.controller.supportedLanguages = ["python"];
    this.controller.supportsExecutionOrder = true;
    this.controller.executeHandler = (cells, notebook) => this.runForUser(cells, notebook);
    this.controller.interruptHandler = async (notebook) => {
      this.interrupts.get(notebook)?.abort();
      this.interrupts.delete(notebook);
      await settings.interrupt(this.agentOf(notebook) ?? notebook.uri.fsPath);
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

  /** The signal of the next interrupt of the notebook. */
  private interruptOf(notebook: vscode.NotebookDocument): AbortSignal {
    const controller = this.interrupts.get(notebook) ?? new AbortController();
    this.interrupts.set(notebook, controller);
    return controller.signal;
  }

  /** Stops at the first cell that fails, and before the next cell after an interrupt. */
  private async runForUser(
    cells: vscode.NotebookCell[],
    notebook: vscode.NotebookDocument,
  ): Promise<void> {
    const agent = this.agentOf(notebook);
    // Other notebooks may have changes that the user does not want to save yet.
    const save = agent === undefined ? undefined : (): void => void notebook.save();
    const run = agent === undefined ? this.settings.runIn : this.settings.run;
    const interrupted = this.interruptOf(notebook);
    const isInterrupted = (): boolean => interrupted.aborted; // it changes during an await
    for (const cell of cells) {
      if (isInterrupted()) return;
      const execution = this.controller.createNotebookCellExecution(cell);
      execution.start(Date.now());
      await execution.clearOutput();
      const shown = new ShownCell(
        Promise.resolve(execution),
        (error) => this.logError(error),
        save,
      );
      let end!: (error: CellError | null) => void;
      const ended = new Promise<CellError | null>((resolve) => (end = resolve));
      // A cell that has begun is interrupted; one that has not is cancelled.
      const starting = new AbortController();
      const cancel = (): void => starting.abort();
      const view: CellView = {
        begun: (count) => {
          interrupted.removeEventListener("abort", cancel);
          shown.begun(count);
        },
        output: (output) => shown.output(output),
        over: (error) => {
          shown.over(error);
          end(error);
        },
      };
      const code = cell.document.getText();
      interrupted.addEventListener("abort", cancel, { once: true });
      if (isInterrupted()) cancel();
      await run(agent ?? notebook.uri.fsPath, code, view, starting.signal).catch((error: unknown) =>
        view.over({ name: "NotRun", value: messageOf(error) }),
      );
      const error = await ended;
      interrupted.removeEventListener("abort", cancel);
      await shown.written();
      if (error) return;
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
