/** Reads pytest's list of tests, and finds the lines in which listed tests are defined. */
import * as fs from "node:fs";
import * as path from "node:path";
import type { ListedTest } from "./test_results";
import { TITLES } from "./vitest_results";

/** The output of `pytest --collect-only --verbosity=-1`: an id per line, then errors and a summary. */
export function parsePytestList(output: string): ListedTest[] {
  const ids = output.split(/\r?\n/).filter((line) => /^(?!ERROR )[^\s:=][^:]*\.\w+::\S/.test(line));
  return ids.map((id) => ({ id, path: id.split("::")[0] ?? null, line: null }));
}

/** Adds lines where they are unknown. Paths become absolute. */
export function withLines(directory: string, tests: readonly ListedTest[]): ListedTest[] {
  const files = new Map<string, string[]>();
  const linesOf = (file: string): string[] => {
    const known = files.get(file) ?? readLines(file);
    files.set(file, known);
    return known;
  };
  return tests.map((test) => {
    const file = test.path === null ? null : path.resolve(directory, test.path);
    if (file === null || test.line !== null) return { ...test, path: file };
    return { ...test, path: file, line: definition(linesOf(file), test.id) };
  });
}

/** The line that has the name of the test, after those that have the names of its classes. */
function definition(lines: readonly string[], id: string): number | null {
  const names = (id.split("::").slice(1).join(TITLES) || id).split(TITLES);
  let line = -1;
  for (const name of names) {
    const bare = name.replace(/\[.*\]$/s, "");
    const pattern = /^\w+$/.test(bare)
      ? new RegExp(`\\b(?:def|class|func)\\s+${bare}\\b|["'\`]${bare}["'\`]`)
      : undefined;
    const found = lines.findIndex(
      (text, n) => n > line && (pattern ? pattern.test(text) : text.includes(name)),
    );
    if (found < 0) return null;
    line = found;
  }
  return line + 1;
}

function readLines(file: string): string[] {
  const stats = fs.statSync(file, { throwIfNoEntry: false });
  return stats?.isFile() ? fs.readFileSync(file, "utf8").split("\n") : [];
}
