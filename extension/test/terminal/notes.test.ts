/** Notes around a command's output: word for word those of the sandbox's shell. */
import { expect, test } from "vitest";
import * as notes from "../../src/terminal/notes";
import { load, text, type VectorText } from "../vectors";

interface Vectors {
  fixed: { note: keyof typeof FIXED; text: string }[];
  made: { note: keyof typeof MADE; arguments: (number | VectorText)[]; text: VectorText }[];
}

const FIXED = {
  previous: notes.PREVIOUS,
  nothing_to_read: notes.NOTHING_TO_READ,
  nothing_to_type_into: notes.NOTHING_TO_TYPE_INTO,
  new_shell: notes.NEW_SHELL,
  other_reader: notes.OTHER_READER,
};
const MADE = {
  completed: notes.completed,
  no_new_output: notes.noNewOutput,
  timed_out: notes.timedOut,
  left_by_previous: notes.leftByPrevious,
  refused: notes.refused,
  shell_ended: notes.shellEnded,
  shell_replaced: notes.shellReplaced,
  status_unknown: notes.statusUnknown,
  left_out: notes.leftOut,
};

const vectors = load("output_notes") as Vectors;

test.each(vectors.fixed)("$note", (given) => {
  expect(FIXED[given.note]).toBe(given.text);
});

test.each(vectors.made)("$note of $arguments", (given) => {
  const values = given.arguments.map((each) => (typeof each === "number" ? each : text(each)));
  const make = MADE[given.note] as (...values: (number | string)[]) => string;
  expect(make(...values)).toBe(text(given.text));
});
