/** Runs cells through VS Code's own commands, with the kernel that the user chose. */
import * as vscode from "vscode";
import { within } from "../common/deadline";
import { Failure, messageOf } from "../common/failure";
import type { CellState } from "./cell_items";

/** Milliseconds to wait for the first cell to start: the user may have to choose a kernel. */
const START_MS = 60_000;
/** Milliseconds to wait for cells after they were interrupted. */
const INTERRUPT_MS = 10_000;

export interface CellRunLimit {
  /** When to interrupt, as a time of `performance.now()`; undefined: never. */
  until: number | undefined;
  signal: AbortSignal;
}

export interface CellRunResult {
  states: ReadonlyMap<vscode.NotebookCell, CellState>;
  timedOut: boolean;
}

type WaitEnd = "ended" | "timeout" | "start" | "abort";

/** What VS Code has reported about a cell. */
interface CellProgress {
  /** Changes of the execution summary. */
  changes: number;
  /** The kernel has given the cell a number. */
  isNumbered: boolean;
  end: "done" | "failed" | undefined;
}

/**
 * One run of some cells. VS Code reports each step of a cell as a change of its execution summary:
 * queued, started, numbered, ended. If there is no kernel or an earlier cell failed, VS Code takes
 * the cell out of the queue. This looks like a start, but then the command returns.
 */
export class CellRun {
  private readonly progress = new Map<vscode.NotebookCell, CellProgress>();
  private readonly listening: vscode.Disposable;
  private changed: () => void = () => undefined;
  private hasReturned = false;

  constructor(
    private readonly notebook: vscode.NotebookDocument,
    private readonly cells: readonly vscode.NotebookCell[],
  ) {
    for (const cell of cells)
      this.progress.set(cell, { changes: 0, isNumbered: false, end: undefined });
    this.listening = vscode.workspace.onDidChangeNotebookDocument((event) => {
      if (event.notebook === notebook) this.note(event);
    });
  }

  /** Runs the cells once. Fails with `notebook.no_kernel` if none of them has started. */
  async run(limit: CellRunLimit): Promise<CellRunResult> {
    try {
      // If there is no kernel, VS Code asks for one for the notebook that has the focus, which may
      // be another notebook. If no notebook has the focus, VS Code does not ask.
      const focused = vscode.window.activeNotebookEditor?.notebook;
      if (focused && focused !== this.notebook) await this.focus();
      const wasAsked = vscode.window.activeNotebookEditor?.notebook === this.notebook;
      let outcome = await this.attempt(limit);
      if (outcome === "ended" && !this.hasStarted && !wasAsked) {
        const { outcome: chosen, isChosen } = await this.chooseKernel(limit);
        outcome = chosen === "ended" && isChosen ? await this.attempt(limit) : chosen;
      }
      if (outcome !== "ended") await this.interrupt();
      if (outcome === "abort")
        throw new Failure(
          "action.cancelled",
          "The action was cancelled, and its cells interrupted",
        );
      if (!this.hasStarted) throw this.notStarted();
      return { states: this.states, timedOut: outcome === "timeout" };
    } finally {
      this.listening.dispose();
    }
  }

  private get hasStarted(): boolean {
    return [...this.progress.values()].some(
      ({ changes, isNumbered, end }) =>
        isNumbered || end !== undefined || (changes > 1 && !this.hasReturned),
    );
  }

  private get hasEnded(): boolean {
    const open = [...this.progress.values()].filter(({ end }) => end === undefined);
    return this.hasReturned ? !open.some(({ isNumbered }) => isNumbered) : !open.length;
  }

  private get states(): Map<vscode.NotebookCell, CellState> {
    return new Map(
      [...this.progress].map(([cell, { end, isNumbered }]) => [
        cell,
        end ?? (isNumbered ? "running" : "not_run"),
      ]),
    );
  }

  private note({ cellChanges }: vscode.NotebookDocumentChangeEvent): void {
    for (const { cell, executionSummary } of cellChanges) {
      const progress = this.progress.get(cell);
      if (!executionSummary || !progress) continue;
      const { success, timing, executionOrder } = executionSummary;
      progress.changes += 1;
      progress.isNumbered = typeof executionOrder === "number";
      const hasEnded = typeof success === "boolean" || timing !== undefined;
      progress.end = hasEnded ? (success === false ? "failed" : "done") : undefined;
    }
    this.changed();
  }

  private async attempt(limit: CellRunLimit): Promise<WaitEnd> {
    this.hasReturned = false;
    const command = vscode.commands.executeCommand("notebook.cell.execute", this.range());
    let failed: unknown;
    void Promise.resolve(command)
      .catch((error: unknown) => (failed = error))
      .finally(() => {
        this.hasReturned = true;
        this.changed();
      });
    const outcome = await this.wait(() => this.hasEnded, limit);
    if (failed && !this.hasStarted) throw new Failure("notebook.no_kernel", messageOf(failed));
    return outcome;
  }

  private wait(isDone: () => boolean, { until, signal }: CellRunLimit): Promise<WaitEnd> {
    return new Promise((resolve) => {
      const timers: NodeJS.Timeout[] = [];
      const end = (outcome: WaitEnd): void => {
        for (const timer of timers) clearTimeout(timer);
        signal.removeEventListener("abort", abort);
        this.changed = () => undefined;
        resolve(outcome);
      };
      const abort = (): void => end("abort");
      if (until !== undefined)
        timers.push(setTimeout(() => end("timeout"), Math.max(0, until - performance.now())));
      timers.push(setTimeout(() => (this.hasStarted ? undefined : end("start")), START_MS));
      signal.addEventListener("abort", abort, { once: true });
      this.changed = () => (isDone() ? end("ended") : undefined);
      if (signal.aborted) abort();
      else this.changed();
    });
  }

  /**
   * If no kernel is chosen, VS Code asks the user. Ends at once if the notebook has a kernel.
   * `isChosen` is false if the user dismissed the question.
   */
  private async chooseKernel(
    limit: CellRunLimit,
  ): Promise<{ outcome: WaitEnd; isChosen: boolean }> {
    const notebookEditor = await this.focus();
    let isAnswered = false;
    let isChosen = false;
    const asked = vscode.commands.executeCommand("notebook.selectKernel", {
      notebookEditor,
      skipIfAlreadySelected: true,
    });
    void Promise.resolve(asked)
      .catch(() => false) // as if the user had chosen none
      .then((answer) => (isChosen = answer !== false))
      .finally(() => {
        isAnswered = true;
        this.changed();
      });
    const outcome = await this.wait(() => isAnswered, limit);
    return { outcome, isChosen };
  }

  private async focus(): Promise<vscode.NotebookEditor> {
    const shown = vscode.window.visibleNotebookEditors.find(
      ({ notebook }) => notebook === this.notebook,
    );
    const viewColumn = shown?.viewColumn ?? vscode.ViewColumn.Active;
    return vscode.window.showNotebookDocument(this.notebook, { preview: false, viewColumn });
  }

  /** Also closes VS Code's question for a kernel, which would otherwise run the cells later. */
  private async interrupt(): Promise<void> {
    if (!this.hasStarted) {
      await vscode.commands.executeCommand("workbench.action.closeQuickOpen");
    }
    await vscode.commands.executeCommand("notebook.cell.cancelExecution", this.range());
    const ended = new Promise<void>((resolve) => {
      this.changed = () => (this.hasEnded ? resolve() : undefined);
      this.changed();
    });
    // A cell that does not end is reported as running.
    await within(ended, INTERRUPT_MS, () => new Error("still running")).catch(() => undefined);
  }

  private range(): object {
    const ranges = this.cells.map(({ index }) => ({ start: index, end: index + 1 }));
    return { ranges, document: this.notebook.uri };
  }

  private notStarted(): Failure {
    return new Failure(
      "notebook.no_kernel",
      `No cell of ${this.notebook.uri.fsPath} has started: the user has not chosen a kernel for ` +
        "this notebook, or the kernel does not run the language of the cells. Ask the user to " +
        "choose one with 'Select Kernel' in the notebook",
    );
  }
}
