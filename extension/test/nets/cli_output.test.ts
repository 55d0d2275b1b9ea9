import { expect, test } from "vitest";
import { readFindings, readDrawing } from "../../src/nets/cli_output";

const told = {
  severity: "error",
  code: "net.key",
  message: "No",
  file: "n.evolve.yaml",
  line: 2,
  column: 3,
  endLine: 2,
  endColumn: 5,
};

test("what is wrong is placed where VS Code counts, also after characters of two halves", () => {
  const [plain] = readFindings(JSON.stringify([told]), "pnml:\n  abc\n");
  const [wide] = readFindings(JSON.stringify([told]), "pnml:\r\n🦉🦉abc\r\n");

  expect([plain?.start, plain?.end]).toEqual([
    [1, 2],
    [1, 4],
  ]);
  expect([wide?.start, wide?.end]).toEqual([
    [1, 4],
    [1, 6],
  ]);
  expect([plain?.isError, plain?.code, plain?.message]).toEqual([true, "net.key", "No"]);
});

test("lines of nodes count from 0", () => {
  const view = readDrawing(
    JSON.stringify({ svg: "<svg/>", places: { p: 5 }, transitions: { t: 9 } }),
  );

  expect([view.svg, view.places.get("p"), view.transitions.get("t")]).toEqual(["<svg/>", 4, 8]);
});

test("what is no answer is refused, and said", () => {
  expect(() => readFindings("Traceback", "")).toThrow("unexpected output: Traceback");
  expect(() => readFindings("{}", "")).toThrow("unexpected output");
  expect(() => readDrawing("[]")).toThrow("unexpected output");
});
