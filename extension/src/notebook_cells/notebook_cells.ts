/**
 * Reads, edits and runs the cells of notebooks, through VS Code's notebook API: unsaved changes of
 * the user are read and kept, and a change is one step for undo.
 */
import * as vscode from "vscode";
import type { Documents } from "../actions/documents";
import { unixLines } from "../actions/lines";
import type { PathResolver, ResolvedPath } from "../actions/paths";
import { dataOf } from "../actions/unsaved_changes";
import { Failure } from "../common/failure";
import { ensurePageRange } from "../common/page_range";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import {
  noSuchCell,
  replacements,
  withCellEdits,
  type CellReplacement,
  type PlannedCell,
} from "./cell_edits";
import { describeCells, kindOf, type DescribedCells } from "./cell_items";
import { CellRun, type CellRunLimit, type CellRunResult } from "./cell_run";
import { openNotebook } from "./open_notebook";

const OUTPUT_LIMIT = 4000;
const LEFT_UNSAVED = "The notebook has unsaved changes of the user, so it was not saved";

type Cells = ObservationBody<"cells">;

interface NamedNotebook {
  target: ResolvedPath;
  notebook: vscode.NotebookDocument;
}

interface StartedCells {
  cells: readonly vscode.NotebookCell[];
  wasUnsaved: boolean;
  /** Of all cells of the notebook. */
  sources: readonly string[];
  running: Promise<CellRunResult>;
}

export class NotebookCells {
  /** The code of each `run_cells` when it was admitted, by its arguments. */
  private readonly admitted = new WeakMap<ArgsOf<"run_cells">, string>();

  constructor(
    private readonly resolver: PathResolver,
    private readonly documents: Documents,
  ) {}

  async read(args: ArgsOf<"read_cells">, cwd: string): Promise<Cells> {
    const {
      offset = 0,
      limit = 50,
      outputs = true,
      output_limit: outputLimit = OUTPUT_LIMIT,
    } = args;
    ensurePageRange({ offset, limit });
    if (outputLimit < 0)
      throw new Failure(
        "file.invalid_range",
        `\`output_limit\` is ${outputLimit}; it is at least 0`,
      );
    const named = await this.open(args.path, cwd);
    const wanted = cellsOf(named.notebook, args.cells ?? []);
    const page = wanted.slice(offset, offset + limit);
    const described = describeCells(page, { outputs, outputLimit });
    const next = offset + described.count;
    const notes =
      next < wanted.length ? [`${wanted.length} cells; continue with \`offset\` ${next}`] : [];
    const empty = named.notebook.cellCount
      ? `No more cells; there are ${wanted.length}`
      : "The notebook has no cells";
    return answer(named, described, { notes, empty, isCut: notes.length > 0 });
  }

  async edit(args: ArgsOf<"edit_cells">, cwd: string): Promise<Cells> {
    const named = await this.open(args.path, cwd);
    const { target, notebook } = named;
    return this.documents.withLock(target, async () => {
      const before = notebook.getCells().map(planned);
      const { cells, done } = withCellEdits(before, args.edits);
      const edits = replacements(before, cells);
      const wasUnsaved = notebook.isDirty;
      if (edits.length) await replaceCells(named, edits);
      const left = cells.map(({ source }) => source);
      const isLeftUnsaved =
        wasUnsaved || (edits.length > 0 && !(await this.saveUnlessTyped(named, left)));
      const changed = cells.flatMap(({ origin, source }, index) =>
        origin === undefined || before[origin]?.source !== source ? [notebook.cellAt(index)] : [],
      );
      const { items } = describeCells(changed, { outputs: false, outputLimit: 0 });
      const total = notebook.cellCount;
      const { displayPath: path } = target;
      const extras = { path, items: [...items], total, unsaved: notebook.isDirty };
      const content = [...done, `The notebook has ${total} cells now`].join("\n");
      const note = isLeftUnsaved ? { note: LEFT_UNSAVED } : {};
      return { ...observe("cells", content, extras), ...note };
    });
  }

  async run(args: ArgsOf<"run_cells">, cwd: string, limit: CellRunLimit): Promise<Cells> {
    const { output_limit: outputLimit = OUTPUT_LIMIT } = args;
    const named = await this.open(args.path, cwd);
    const { target, notebook } = named;
    await show(notebook);
    // The lock keeps edits away until VS Code has the cells, and is not held while they run.
    const { cells, wasUnsaved, sources, running } = await this.documents.withLock(target, () =>
      Promise.resolve().then(() => this.start(args, notebook, limit)),
    );
    const { states, timedOut } = await running;
    const isLeftUnsaved =
      wasUnsaved ||
      !(await this.documents.withLock(target, () => this.saveUnlessTyped(named, sources)));
    const ran = cells.filter((cell) => cell.index >= 0);
    const described = describeCells(ran, { outputs: true, outputLimit, states });
    const left = ran.length - described.count;
    const notes = [
      ...(timedOut ? ["The cells reached the timeout and were interrupted"] : []),
      ...([...states.values()].includes("running")
        ? ["A cell does not end: ask the user to restart its kernel"]
        : []),
      ...(left ? [`${left} more cells ran; \`read_cells\` shows them`] : []),
      ...(isLeftUnsaved ? [LEFT_UNSAVED] : []),
    ];
    const isDone = [...states.values()].every((state) => state === "done");
    const seen = answer(named, described, { notes, empty: "", isCut: left > 0, timedOut });
    return { ...seen, success: isDone };
  }

  /** Starts the cells. Fails with `consent.denied` if they are not those that were admitted. */
  private start(
    args: ArgsOf<"run_cells">,
    notebook: vscode.NotebookDocument,
    limit: CellRunLimit,
  ): StartedCells {
    const cells = codeCells(notebook, args.cells ?? []);
    if (this.admitted.get(args) !== codeOf(cells))
      throw new Failure(
        "consent.denied",
        "'run_cells' was not done: the cells changed after it was admitted; send it again",
      );
    const wasUnsaved = notebook.isDirty;
    const sources = sourcesOf(notebook);
    return { cells, wasUnsaved, sources, running: new CellRun(notebook, cells).run(limit) };
  }

  /** The code that `run_cells` would run, for the question to the user. `run` runs exactly that. */
  async codeToRun(args: ArgsOf<"run_cells">, cwd: string): Promise<string> {
    const { notebook } = await this.open(args.path, cwd);
    const cells = codeCells(notebook, args.cells ?? []);
    this.admitted.set(args, codeOf(cells));
    return cells.map((cell) => `# cell ${cell.index + 1}\n${cell.document.getText()}`).join("\n\n");
  }

  private async open(given: string, cwd: string): Promise<NamedNotebook> {
    const target = await this.resolver.find(given, cwd);
    await this.documents.withLock(target, () => this.documents.settled());
    return { target, notebook: await openNotebook(target) };
  }

  /** Saves if the cells have these sources. False if the user has typed since the action began. */
  private async saveUnlessTyped(
    named: NamedNotebook,
    sources: readonly string[],
  ): Promise<boolean> {
    const isSame = (one: readonly string[], other: readonly string[]): boolean =>
      JSON.stringify(one.map(unixLines)) === JSON.stringify(other.map(unixLines));
    if (!isSame(sourcesOf(named.notebook), sources)) return false;
    await this.save(named);
    return true;
  }

  /** Saves what an agent changed, and reports it to the review. */
  private async save({ target, notebook }: NamedNotebook): Promise<void> {
    const before = await this.documents.load(target);
    if (!(await notebook.save()) && notebook.isDirty)
      throw new Failure(
        "file.storage",
        `${target.displayPath} was changed in the editor, but could not be saved. The user can undo the change there`,
      );
    const after = await this.documents.load(target);
    if (before && after && !before.equals(after))
      this.documents.notifyChange(target, "text", before.toString(), after.toString());
  }
}

async function replaceCells(
  { target, notebook }: NamedNotebook,
  edits: readonly CellReplacement[],
): Promise<void> {
  const change = new vscode.WorkspaceEdit();
  const notebookEdits = edits.map(({ start, end, cells }) =>
    vscode.NotebookEdit.replaceCells(
      new vscode.NotebookRange(start, end),
      cells.map((cell) => cellData(cell, notebook)),
    ),
  );
  change.set(notebook.uri, notebookEdits);
  if (!(await vscode.workspace.applyEdit(change)))
    throw new Failure(
      "edit.conflict",
      `VS Code did not change ${target.displayPath}. Read its cells and try again`,
    );
}

function answer(
  { target, notebook }: NamedNotebook,
  { items, content, images, isCut }: DescribedCells,
  more: { notes: string[]; empty: string; isCut: boolean; timedOut?: boolean },
): Cells {
  const notes = [
    ...more.notes,
    ...(images.leftOut
      ? [`${images.leftOut} images were left out, because there are too many`]
      : []),
  ];
  const extras = {
    path: target.displayPath,
    items: [...items],
    image_urls: images.urls.length ? images.urls : null,
    total: notebook.cellCount,
    truncated: isCut || more.isCut || images.leftOut > 0,
    unsaved: notebook.isDirty,
    timed_out: more.timedOut ?? false,
  };
  return {
    ...observe("cells", content || more.empty, extras),
    ...(notes.length ? { note: notes.join("\n") } : {}),
  };
}

function cellsOf(
  notebook: vscode.NotebookDocument,
  numbers: readonly number[],
): vscode.NotebookCell[] {
  const all = notebook.getCells();
  if (!numbers.length) return all;
  return [...new Set(numbers)].map((number) => {
    const cell = all[number - 1];
    if (!cell) throw noSuchCell(number, all.length);
    return cell;
  });
}

/** The named code cells, or all of them, in the order of the notebook. */
function codeCells(
  notebook: vscode.NotebookDocument,
  numbers: readonly number[],
): vscode.NotebookCell[] {
  const isCode = (cell: vscode.NotebookCell): boolean => kindOf(cell) === "code";
  const named = cellsOf(notebook, numbers);
  const other = numbers.length ? named.find((cell) => !isCode(cell)) : undefined;
  if (other)
    throw new Failure("notebook.no_cell", `Cell ${other.index + 1} is text and has no code to run`);
  const cells = named.filter(isCode).sort((one, two) => one.index - two.index);
  if (!cells.length) throw new Failure("notebook.no_cell", "The notebook has no cells with code");
  return cells;
}

function sourcesOf(notebook: vscode.NotebookDocument): string[] {
  return notebook.getCells().map(({ document }) => document.getText());
}

/** Identifies cells by their positions, languages and code. */
function codeOf(cells: readonly vscode.NotebookCell[]): string {
  return JSON.stringify(
    cells.map(({ index, document }) => [index, document.languageId, document.getText()]),
  );
}

/** Shows the notebook, because VS Code runs cells only in an editor. Keeps the user's focus. */
async function show(notebook: vscode.NotebookDocument): Promise<void> {
  if (vscode.window.visibleNotebookEditors.some((editor) => editor.notebook === notebook)) return;
  const isFree = vscode.window.tabGroups.activeTabGroup.tabs.length === 0;
  const viewColumn = isFree ? vscode.ViewColumn.Active : vscode.ViewColumn.Beside;
  const options = { preserveFocus: true, preview: false, viewColumn };
  await vscode.window.showNotebookDocument(notebook, options);
}

function planned(cell: vscode.NotebookCell): PlannedCell {
  const { document, index } = cell;
  return {
    origin: index,
    kind: kindOf(cell),
    language: document.languageId,
    source: document.getText(),
  };
}

function cellData(cell: PlannedCell, notebook: vscode.NotebookDocument): vscode.NotebookCellData {
  const { Code, Markup } = vscode.NotebookCellKind;
  const kind = cell.kind === "code" ? Code : Markup;
  if (cell.origin === undefined)
    return new vscode.NotebookCellData(kind, cell.source, cell.language);
  const data = dataOf(notebook.cellAt(cell.origin));
  data.value = cell.source;
  return data;
}
