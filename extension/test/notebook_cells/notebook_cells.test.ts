import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeNotebook, FakeVscode } from "./fake_notebook";

const fake = new FakeVscode();
vi.mock("vscode", () => fake.api());
const { NotebookCells } = await import("../../src/notebook_cells/notebook_cells");
const { Documents } = await import("../../src/actions/documents");

const limit = { until: undefined, signal: new AbortController().signal };
const EXECUTE = "notebook.cell.execute";
const LEFT_UNSAVED = expect.stringContaining("not saved") as string;

let folder: string;
let notebook: FakeNotebook;
let cells: InstanceType<typeof NotebookCells>;

beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "notebook-cells-"));
  const file = join(folder, "a.ipynb");
  notebook = fake.notebook = new FakeNotebook(file, ["one", "two"]);
  fake.executed.length = 0;
  fake.onApplied = () => undefined;
  fake.onCommand = (command) => {
    if (command === EXECUTE) for (const cell of notebook.cells) fake.end(cell);
  };
  const resolver = { find: () => Promise.resolve({ displayPath: file, real: file }) };
  cells = new NotebookCells(resolver as never, new Documents(() => undefined));
});

afterEach(() => fs.rmSync(folder, { recursive: true }));

const edits = [{ op: "edit", cell: 2, source: "changed" }];

test("cells run as they were admitted, and their outputs are saved", async () => {
  const args = { path: "a.ipynb" };
  expect(await cells.codeToRun(args, folder)).toBe("# cell 1\none\n\n# cell 2\ntwo");
  const ran = await cells.run(args, folder, limit);
  expect(ran.success).toBe(true);
  expect([fake.executed, notebook.saves, notebook.isDirty]).toEqual([[EXECUTE], 1, false]);
});

test("cells that changed after they were admitted do not run", async () => {
  const args = { path: "a.ipynb" };
  await cells.codeToRun(args, folder);
  await cells.edit({ path: "a.ipynb", edits }, folder);
  const running = cells.run(args, folder, limit);
  await expect(running).rejects.toMatchObject({
    code: "consent.denied",
    message: "'run_cells' was not done: the cells changed after it was admitted; send it again",
  });
  expect(fake.executed).toEqual([]);
});

test("what the user typed while cells ran stays unsaved", async () => {
  const args = { path: "a.ipynb" };
  await cells.codeToRun(args, folder);
  fake.onCommand = () => {
    notebook.type(0, "one # mine");
    for (const cell of notebook.cells) fake.end(cell);
  };
  const ran = await cells.run(args, folder, limit);
  expect(ran.note).toEqual(LEFT_UNSAVED);
  expect([notebook.saves, notebook.isDirty]).toEqual([0, true]);
});

test("what the user typed during an edit stays unsaved", async () => {
  fake.onApplied = () => notebook.type(0, "one # mine");
  const edited = await cells.edit({ path: "a.ipynb", edits }, folder);
  expect(edited.note).toEqual(LEFT_UNSAVED);
  expect([notebook.saves, notebook.isDirty]).toEqual([0, true]);
});

test("an edit is saved, also if its source has other line ends than the editor", async () => {
  fake.onApplied = () => notebook.type(1, "a\nb");
  const source = "a\r\nb";
  const crlf = [{ op: "edit", cell: 2, source }];
  const edited = await cells.edit({ path: "a.ipynb", edits: crlf }, folder);
  expect([edited.note, notebook.saves]).toEqual([undefined, 1]);
});

test.each(["dismissed", "failed"])(
  "after a choice of a kernel was %s, the cells are not executed again",
  async (how) => {
    const args = { path: "a.ipynb" };
    await cells.codeToRun(args, folder);
    fake.onCommand = (command) => {
      if (command !== "notebook.selectKernel") return undefined;
      if (how === "failed") throw new Error("no such kernel");
      return false;
    };
    await expect(cells.run(args, folder, limit)).rejects.toMatchObject({
      code: "notebook.no_kernel",
    });
    expect(fake.executed).toEqual([EXECUTE, "notebook.selectKernel"]);
  },
);
