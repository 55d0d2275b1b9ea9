/** Glob patterns, by the vectors that the sandbox's pass too. */
import { expect, test } from "vitest";
import { compileGlob, expandBraces } from "../../src/actions/globs";
import { load, text, type VectorText } from "../vectors";

interface Vectors {
  matches: { pattern: VectorText; fits: VectorText[]; misses: VectorText[] }[];
  refused: { name: string; pattern: VectorText; why: string }[];
  braces: { pattern: string; stands_for: string[] }[];
}

const vectors = load("globs") as Vectors;

test.each(vectors.matches)("$pattern fits what it says, in little time", (given) => {
  const began = process.cpuUsage();
  const matches = compileGlob(text(given.pattern));
  expect(given.fits.map(text).filter((path) => !matches(path))).toEqual([]);
  expect(given.misses.map(text).filter(matches)).toEqual([]);
  expect(process.cpuUsage(began).user).toBeLessThan(1_000_000);
});

test.each(vectors.refused)("$name is refused", ({ pattern, why }) => {
  expect(() => compileGlob(text(pattern))).toThrow(why);
});

test.each(vectors.braces)("$pattern stands for every combination", ({ pattern, stands_for }) => {
  expect(expandBraces(pattern)).toEqual(stands_for);
});
