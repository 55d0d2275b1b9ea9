/** Edits of texts, by the vectors that the sandbox passes too. */
import { expect, test } from "vitest";
import { withEdits, type OffsetEdit } from "../../src/language/text_edits";
import { load } from "../vectors";

interface Vectors {
  cases: { name: string; text: string; edits: OffsetEdit[]; after: string }[];
}

test.each((load("text_edits") as Vectors).cases)("$name", ({ text, edits, after }) => {
  expect(withEdits(text, edits)).toBe(after);
});
