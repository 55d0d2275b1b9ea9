/** Symbols in lines, by the vectors that the sandbox passes too. */
import { expect, test } from "vitest";
import { Failure } from "../../src/common/failure";
import { symbolInLine } from "../../src/language/symbol_in_line";
import { load } from "../vectors";

type Vector = [text: string, symbol: string, occurrence: number, expected: string];

const vectors = load("symbol_in_line") as { found: Vector[]; not_found: Vector[] };
const NAME = { displayPath: "/f/a.ts", line: 7 };
const at = (text: string, symbol: string, occurrence = 1): string => {
  const { start, end } = symbolInLine(text, symbol, occurrence, NAME);
  expect(text.slice(start, end)).toBe(symbol);
  return `${text.slice(0, start)}|${text.slice(start)}`;
};

test.each(vectors.found)("in %j, %j number %i is at %j", (text, symbol, occurrence, expected) => {
  expect(at(text, symbol, occurrence)).toBe(expected);
});

test.each(vectors.not_found)(
  "in %j, %j number %i is not found",
  (text, symbol, number, message) => {
    expect(() => at(text, symbol, number)).toThrow(Failure);
    expect(() => at(text, symbol, number)).toThrow(message);
  },
);

test("a long line is shortened", () => {
  expect(() => at("x".repeat(5000), "y")).toThrow(/x{300}…$/);
});
