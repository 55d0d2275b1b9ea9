import { expect, test } from "vitest";
import { withoutEdit } from "../../src/actions/edits";
import { load } from "../vectors";

interface Vector {
  name: string;
  before: string;
  after: string;
  now: string;
  undone: string | null;
}

const vectors = load("without_edit") as Vector[];

test.each(vectors)("$name", ({ before, after, now, undone }) => {
  expect(withoutEdit(before, after, now) ?? null).toBe(undone);
});
