/** The part of VS Code's API that runs and edits cells, with one open notebook. */
import * as fs from "node:fs";

interface Summary {
  executionOrder?: number;
  success?: boolean;
}

export class FakeCell {
  readonly kind = 2;
  readonly outputs: unknown[] = [];
  readonly metadata = {};
  executionSummary: Summary | undefined;
  readonly document;

  constructor(
    private readonly notebook: FakeNotebook,
    public source: string,
  ) {
    this.document = { getText: () => this.source, languageId: "python" };
  }

  get index(): number {
    return this.notebook.cells.indexOf(this);
  }
}

export class FakeNotebook {
  readonly uri: { scheme: string; fsPath: string };
  readonly isClosed = false;
  cells: FakeCell[];
  isDirty = false;
  saves = 0;

  constructor(file: string, sources: readonly string[]) {
    this.uri = { scheme: "file", fsPath: file };
    this.cells = sources.map((source) => new FakeCell(this, source));
    this.write();
  }

  get cellCount(): number {
    return this.cells.length;
  }
  getCells(): FakeCell[] {
    return this.cells;
  }
  cellAt(index: number): FakeCell | undefined {
    return this.cells[index];
  }
  save(): Promise<boolean> {
    this.saves += 1;
    this.write();
    this.isDirty = false;
    return Promise.resolve(true);
  }
  private write(): void {
    const cells = this.cells.map(({ source }) => ({ source }));
    fs.writeFileSync(this.uri.fsPath, JSON.stringify({ cells }));
  }
  /** As if the user had typed it. */
  type(index: number, source: string): void {
    const cell = this.cells[index];
    if (cell) cell.source = source;
    this.isDirty = true;
  }
}

interface Replacement {
  range: { start: number; end: number };
  cells: { value: string }[];
}

type Listener = (event: object) => void;

/** What VS Code does when it is asked, as each test needs it. */
export class FakeVscode {
  notebook!: FakeNotebook;
  readonly executed: string[] = [];
  /** Called for each command. Cells end normally unless this is replaced. */
  onCommand: (command: string) => unknown = () => undefined;
  /** Called after an edit was applied. */
  onApplied: () => void = () => undefined;
  private readonly listeners = new Set<Listener>();

  /** Reports that the cell has ended. */
  end(cell: FakeCell, success = true): void {
    cell.executionSummary = { executionOrder: 1, success };
    this.notebook.isDirty = true;
    const cellChanges = [{ cell, executionSummary: cell.executionSummary }];
    for (const listener of this.listeners) listener({ notebook: this.notebook, cellChanges });
  }

  api(): object {
    const listen = (listener: Listener) => {
      this.listeners.add(listener);
      return { dispose: () => this.listeners.delete(listener) };
    };
    return {
      NotebookCellKind: { Markup: 1, Code: 2 },
      ViewColumn: { Active: -1, Beside: -2 },
      Uri: { file: (fsPath: string) => ({ scheme: "file", fsPath }) },
      NotebookRange: class {
        constructor(
          readonly start: number,
          readonly end: number,
        ) {}
      },
      NotebookCellData: class {
        constructor(
          readonly kind: number,
          public value: string,
          readonly languageId: string,
        ) {}
      },
      NotebookEdit: {
        replaceCells: (range: Replacement["range"], cells: Replacement["cells"]): Replacement => ({
          range,
          cells,
        }),
      },
      WorkspaceEdit: class {
        edits: Replacement[] = [];
        set(_: unknown, edits: Replacement[]) {
          this.edits = edits;
        }
      },
      workspace: {
        textDocuments: [],
        // `notebook` is set after the module was loaded.
        ...this.notebookDocuments(),
        onDidChangeNotebookDocument: listen,
        onDidChangeTextDocument: listen,
        applyEdit: (change: { edits: Replacement[] }) => this.apply(change.edits),
      },
      window: {
        activeNotebookEditor: undefined,
        visibleNotebookEditors: [],
        tabGroups: { activeTabGroup: { tabs: [] } },
        showNotebookDocument: () => Promise.resolve(),
      },
      commands: {
        executeCommand: (command: string) => {
          this.executed.push(command);
          return Promise.resolve().then(() => this.onCommand(command));
        },
      },
    };
  }

  private notebookDocuments(): { notebookDocuments: { find(is: unknown): unknown } } {
    const all = (): FakeNotebook[] => [this.notebook];
    return {
      notebookDocuments: {
        find: (is: (notebook: FakeNotebook) => boolean) => all().find(is),
        filter: (is: (notebook: FakeNotebook) => boolean) => all().filter(is),
      } as never,
    };
  }

  private apply(edits: readonly Replacement[]): Promise<boolean> {
    const { notebook } = this;
    for (const { range, cells } of [...edits].reverse()) {
      const fresh = cells.map(({ value }) => new FakeCell(notebook, value));
      notebook.cells.splice(range.start, range.end - range.start, ...fresh);
    }
    notebook.isDirty = true;
    this.onApplied();
    return Promise.resolve(true);
  }
}
