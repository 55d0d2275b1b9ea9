/** Applies an agent's edits to the list of a notebook's cells. No I/O. */
import { lineChanges } from "../actions/diff";
import { Failure } from "../common/failure";

export type CellKindName = "code" | "markdown";

/** A cell of the notebook before or after the edits. */
export interface PlannedCell {
  /** Index of the cell before the edits; undefined for a new cell. */
  origin: number | undefined;
  kind: CellKindName;
  language: string;
  source: string;
}

/** Cells `start` to `end` (exclusive) before the edits are replaced by `cells`. */
export interface CellReplacement {
  start: number;
  end: number;
  cells: PlannedCell[];
}

export interface EditedCells {
  cells: PlannedCell[];
  /** What each edit did, as text. */
  done: string[];
}

const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  insert: ["source", "kind", "language"],
  edit: ["source", "old", "new"],
  delete: [],
  move: ["to"],
};

/** Fails if an edit is invalid or names no cell. Numbers of cells count after earlier edits. */
export function withCellEdits(
  before: readonly PlannedCell[],
  edits: readonly Readonly<Record<string, unknown>>[],
): EditedCells {
  if (!edits.length)
    throw new Failure("edit.invalid", "`edits` is empty; give at least one edit of a cell");
  const cells = [...before];
  const done = edits.map((edit, n) => {
    try {
      return apply(cells, edit);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      throw new Failure(error.code, `Edit ${n + 1}: ${error.message}; nothing was changed`);
    }
  });
  return { cells, done };
}

/** The smallest ranges of cells to replace, in the order of the notebook. */
export function replacements(
  before: readonly PlannedCell[],
  after: readonly PlannedCell[],
): CellReplacement[] {
  const isKept = ({ origin, source }: PlannedCell): boolean =>
    origin !== undefined && before[origin]?.source === source;
  const old = before.map((_, index) => String(index));
  const fresh = after.map((cell, n) => (isKept(cell) ? String(cell.origin) : `new ${n}`));
  return lineChanges(old, fresh).map(([start, end, from, to]) => ({
    start,
    end,
    cells: after.slice(from, to),
  }));
}

export function noSuchCell(number: unknown, count: number): Failure {
  const range = count === 0 ? "the notebook has no cells" : `the notebook has cells 1 to ${count}`;
  return new Failure("notebook.no_cell", `There is no cell ${JSON.stringify(number)}: ${range}`);
}

function apply(cells: PlannedCell[], edit: Readonly<Record<string, unknown>>): string {
  const { op, cell } = edit;
  const allowed = typeof op === "string" ? ALLOWED[op] : undefined;
  if (!allowed)
    throw invalid(`\`op\` is ${JSON.stringify(op)}; it is insert, edit, delete or move`);
  const unknown = Object.keys(edit).filter((name) => !["op", "cell", ...allowed].includes(name));
  if (unknown.length)
    throw invalid(
      `'${String(op)}' has no \`${unknown[0]}\`; it has: ${["cell", ...allowed].join(", ")}`,
    );
  const last = op === "insert" ? cells.length + 1 : cells.length;
  const at = indexOf(cell, last, cells.length);
  switch (op) {
    case "insert":
      cells.splice(at, 0, newCell(edit, cells));
      return `Inserted cell ${at + 1}`;
    case "edit":
      cells[at] = { ...existing(cells, at), source: newSource(existing(cells, at).source, edit) };
      return `Edited cell ${at + 1}`;
    case "delete":
      cells.splice(at, 1);
      return `Deleted cell ${at + 1}`;
    default: {
      const to = indexOf(edit["to"], cells.length, cells.length);
      const moved = existing(cells, at);
      cells.splice(at, 1);
      cells.splice(to, 0, moved);
      return `Moved cell ${at + 1} to ${to + 1}`;
    }
  }
}

function newCell(
  edit: Readonly<Record<string, unknown>>,
  cells: readonly PlannedCell[],
): PlannedCell {
  const { kind = "code", source } = edit;
  if (kind !== "code" && kind !== "markdown")
    throw invalid(`\`kind\` is ${JSON.stringify(kind)}; it is code or markdown`);
  const usual = cells.find((cell) => cell.kind === "code")?.language ?? "python";
  const language = edit["language"] ?? (kind === "markdown" ? "markdown" : usual);
  return {
    origin: undefined,
    kind,
    language: text("language", language),
    source: text("source", source),
  };
}

/** The whole new source, or the source with one occurrence of `old` replaced. */
function newSource(source: string, edit: Readonly<Record<string, unknown>>): string {
  if ((edit["source"] === undefined) === (edit["old"] === undefined))
    throw invalid("'edit' needs either `source`, the whole new text, or `old` and `new`");
  if (edit["source"] !== undefined) return text("source", edit["source"]);
  const old = text("old", edit["old"]);
  const fresh = text("new", edit["new"]);
  const parts = old ? source.split(old) : [];
  if (parts.length < 2)
    throw new Failure("edit.no_match", `The cell does not contain ${JSON.stringify(old)}`);
  if (parts.length > 2)
    throw new Failure(
      "edit.ambiguous",
      `The cell contains ${JSON.stringify(old)} ${parts.length - 1} times; give more of the text around it`,
    );
  return parts.join(fresh);
}

function indexOf(number: unknown, last: number, count: number): number {
  if (typeof number !== "number" || !Number.isInteger(number) || number < 1 || number > last)
    throw noSuchCell(number, count);
  return number - 1;
}

function existing(cells: readonly PlannedCell[], at: number): PlannedCell {
  const cell = cells[at];
  if (!cell) throw noSuchCell(at + 1, cells.length);
  return cell;
}

function text(name: string, value: unknown): string {
  if (typeof value !== "string") throw invalid(`\`${name}\` is missing or is not a text`);
  return value;
}

function invalid(message: string): Failure {
  return new Failure("edit.invalid", message);
}
