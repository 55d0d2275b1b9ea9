import { expect, test } from "vitest";
import { parentsFirst } from "../../src/terminal/processes";

test("a process is killed before its children, whatever their numbers", () => {
  const parents: Record<number, number> = { 5: 900, 900: 300, 300: 1, 7: 300 };
  const sorted = parentsFirst([5, 7, 300, 900, 8], (pid) => parents[pid]);
  expect(sorted).toEqual([300, 900, 5, 7, 8]);
});
