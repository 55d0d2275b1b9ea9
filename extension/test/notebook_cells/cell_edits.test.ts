import { expect, test } from "vitest";
import { replacements, withCellEdits, type PlannedCell } from "../../src/notebook_cells/cell_edits";

function cell(origin: number, source: string, kind: "code" | "markdown" = "code"): PlannedCell {
  return { origin, kind, language: kind === "code" ? "julia" : "markdown", source };
}

const BEFORE = [cell(0, "title", "markdown"), cell(1, "a = 1"), cell(2, "b = a"), cell(3, "b")];

function sources(...edits: object[]): string[] {
  return withCellEdits(BEFORE, edits as Record<string, unknown>[]).cells.map(
    ({ source }) => source,
  );
}

function failure(edit: object): string {
  try {
    sources(edit);
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
  return "";
}

test("each edit counts the cells as the edits before it left them", () => {
  expect(
    sources(
      { op: "delete", cell: 1 },
      { op: "insert", cell: 1, source: "first" },
      { op: "edit", cell: 2, old: "1", new: "2" },
      { op: "move", cell: 4, to: 1 },
      { op: "edit", cell: 4, source: "c" },
    ),
  ).toEqual(["b", "first", "a = 2", "c"]);
});

test("a new code cell has the language of the notebook's code", () => {
  const { cells, done } = withCellEdits(BEFORE, [
    { op: "insert", cell: 5, source: "x" },
    { op: "insert", cell: 1, source: "# y", kind: "markdown" },
  ]);
  expect(cells.at(-1)).toEqual({ origin: undefined, kind: "code", language: "julia", source: "x" });
  expect(cells[0]?.language).toBe("markdown");
  expect(done).toEqual(["Inserted cell 5", "Inserted cell 1"]);
});

test.each([
  [
    { op: "delete", cell: 5 },
    /^notebook\.no_cell: Edit 1: There is no cell 5: .*cells 1 to 4; nothing/,
  ],
  [{ op: "delete", cell: "2" }, /no cell "2"/],
  [{ op: "delete" }, /^notebook\.no_cell/],
  [{ op: "insert", cell: 6, source: "" }, /^notebook\.no_cell/],
  [{ op: "insert", cell: 1 }, /^edit\.invalid: .*`source`/],
  [{ op: "insert", cell: 1, source: "", kind: "raw" }, /`kind` is "raw"/],
  [{ op: "move", cell: 1, to: 0 }, /no cell 0/],
  [{ op: "append", cell: 1 }, /`op` is "append"/],
  [{ op: "delete", cell: 1, source: "x" }, /'delete' has no `source`/],
  [{ op: "edit", cell: 2 }, /needs either/],
  [{ op: "edit", cell: 2, old: "zzz", new: "" }, /^edit\.no_match/],
  [{ op: "edit", cell: 1, old: "t", new: "" }, /^edit\.ambiguous: .*2 times/],
])("%j is a clear error", (edit, expected) => {
  expect(failure(edit)).toMatch(expected);
});

test("no edits are an error", () => {
  expect(() => sources()).toThrow("`edits` is empty");
});

test("only changed cells are replaced", () => {
  const { cells } = withCellEdits(BEFORE, [
    { op: "edit", cell: 2, source: "a = 5" },
    { op: "move", cell: 1, to: 4 },
  ]);
  expect(replacements(BEFORE, cells)).toEqual([
    { start: 0, end: 2, cells: [{ ...BEFORE[1], source: "a = 5" }] },
    { start: 4, end: 4, cells: [BEFORE[0]] },
  ]);
  expect(replacements(BEFORE, BEFORE)).toEqual([]);
});
