/** The rules of an edit, by the vectors that the sandbox's pass too. */
import { expect, test } from "vitest";
import { insertLines, replaceOnce, type Edited } from "../../src/actions/edits";
import { load, text, type VectorText } from "../vectors";

interface Case {
  name: string;
  text: VectorText;
  new: VectorText;
  /** Of an edit that is made. */
  content?: VectorText;
  line?: number;
  lines?: number;
  /** Of one that is refused. */
  code?: string;
  message?: VectorText;
}

interface Vectors {
  replace: (Case & { old: VectorText })[];
  insert: (Case & { insert_line: number })[];
}

const vectors = load("edits") as Vectors;

function check(given: Case, edit: () => Edited): void {
  if (given.code === undefined) {
    const { line, lines } = given;
    expect(edit()).toEqual({ content: text(given.content ?? ""), line, lines });
  } else {
    const { code, message = "" } = given;
    expect(edit).toThrow(expect.objectContaining({ code, message: text(message) }));
  }
}

test.each(vectors.replace)("replace: $name", (given) => {
  check(given, () => replaceOnce(text(given.text), text(given.old), text(given.new), "f"));
});

test.each(vectors.insert)("insert: $name", (given) => {
  check(given, () => insertLines(text(given.text), given.insert_line, text(given.new)));
});
