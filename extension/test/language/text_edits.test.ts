import { expect, test } from "vitest";
import { withEdits } from "../../src/language/text_edits";

test("edits are applied to the text before any of them, in the order of their places", () => {
  const edits = [
    { start: 8, end: 9, text: "C" },
    { start: 0, end: 1, text: "AAA" },
    { start: 4, end: 5, text: "" },
  ];
  expect(withEdits("a - b - c", edits)).toBe("AAA -  - C");
});

test("texts that are inserted at one place keep their order", () => {
  const edits = ["one ", "two "].map((text) => ({ start: 2, end: 2, text }));
  expect(withEdits("a b", edits)).toBe("a one two b");
  expect(withEdits("a b", [])).toBe("a b");
});
