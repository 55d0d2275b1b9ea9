import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { takeBack } from "../../src/actions/edits";

interface Vector {
  name: string;
  before: string;
  after: string;
  now: string;
  undone: string | null;
}

/** The same cases as tests/sandbox/files/test_take_back.py has. */
const file = join(import.meta.dirname, "../../../tests/contracts/vectors/take_back.json");
const vectors = JSON.parse(readFileSync(file, "utf8")) as Vector[];

test.each(vectors)("$name", ({ before, after, now, undone }) => {
  expect(takeBack(before, after, now) ?? null).toBe(undone);
});
