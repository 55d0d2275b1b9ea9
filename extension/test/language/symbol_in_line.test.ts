import { expect, test } from "vitest";
import { Failure } from "../../src/common/failure";
import { symbolInLine } from "../../src/language/symbol_in_line";

const NAME = { displayPath: "/f/a.ts", line: 7 };
const at = (text: string, symbol: string, occurrence = 1): string => {
  const { start, end } = symbolInLine(text, symbol, occurrence, NAME);
  expect(text.slice(start, end)).toBe(symbol);
  return `${text.slice(0, start)}|${text.slice(start)}`;
};

test.each([
  ["let area = 1;", "area", 1, "let |area = 1;"],
  ["areas(area, subarea)", "area", 1, "areas(|area, subarea)"],
  ["area + area", "area", 2, "area + |area"],
  ["this.#size = size", "#size", 1, "this.|#size = size"],
  ["this.#size = size", "size", 2, "this.#size = |size"],
  ["a.b.c", "a.b", 1, "|a.b.c"],
  ["größe = größer", "größe", 1, "|größe = größer"],
  ["𝒳x = x", "x", 1, "𝒳x = |x"],
  ["x𝒳 = x", "x", 1, "x𝒳 = |x"],
  ["$scope = scope", "scope", 1, "$scope = |scope"],
])("in %j, %j number %i is at %j", (text, symbol, occurrence, expected) => {
  expect(at(text, symbol, occurrence)).toBe(expected);
});

test.each([
  [
    "let areas;",
    "area",
    1,
    "'area' is not a whole word in line 7 of /f/a.ts. The line is: let areas;",
  ],
  ["let area;", "area", 2, "'area' occurs once, so there is no occurrence 2, in line 7"],
  ["a + a", "a", 3, "'a' occurs 2 times"],
  ["a + a", "a", 0, "occurs 2 times"],
  ["", "a", 1, "The line is: "],
])("in %j, %j number %i is not found", (text, symbol, occurrence, message) => {
  expect(() => at(text, symbol, occurrence)).toThrow(Failure);
  expect(() => at(text, symbol, occurrence)).toThrow(message);
});

test("a long line is shortened", () => {
  expect(() => at("x".repeat(5000), "y")).toThrow(/x{300}…$/);
});
