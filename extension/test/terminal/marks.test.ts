/** The protocol with bash, by the vectors that the sandbox's shell passes too. */
import { expect, test } from "vitest";
import {
  askLine,
  commandLine,
  findEnd,
  findMark,
  heldBackBytes,
  isNoTerminalError,
  KEY_NAME,
  unfinishedMarkBytes,
  withoutMarks,
  withoutPrompt,
} from "../../src/terminal/marks";
import { data, load, text, type VectorText } from "../vectors";

interface Case {
  name: string;
  data: VectorText;
}

interface Vectors {
  nonce: string;
  find_mark: (Case & { found: Record<string, number | boolean> | null })[];
  find_end: (Case & { said: VectorText; end: Record<string, string | number | boolean> | null })[];
  held_back: (Case & { size: number })[];
  unfinished_mark: (Case & { size: number })[];
  without_marks: (Case & { left: VectorText })[];
  without_prompt: (Case & { left: VectorText })[];
  is_refusal: { output: string; is: boolean }[];
  is_key: { text: string; is: boolean }[];
  command_line: {
    name: string;
    text: string;
    cwd: string | null;
    status: number;
    options: string;
    is_marked: boolean;
    line: string;
  }[];
  refused: { name: string; text: VectorText; cwd: string | null; message: string }[];
  ask_line: string;
}

const vectors = load("shell_marks") as Vectors;
const { nonce } = vectors;
const ENDS = "/ends";

function withChannel(line: string): string {
  return line.replace("@CHANNEL@", () => `1<>$'${ENDS}' 2>&1`);
}

test.each(vectors.find_mark)("find a mark: $name", ({ data: output, found }) => {
  const mark = findMark(data(output), nonce);
  expect(
    mark
      ? {
          before: mark.before,
          after: mark.after,
          is_start: mark.isStart,
          was_asked: mark.wasAsked,
        }
      : null,
  ).toEqual(found);
});

test.each(vectors.find_end)("find an end: $name", ({ said, end }) => {
  const found = findEnd(data(said), nonce);
  expect(
    found
      ? {
          status: found.status,
          background_pid: found.backgroundPid,
          options: found.options,
          path: found.path,
          cwd: found.cwd,
          is_calm: found.isCalm,
          is_marked: found.isMarked,
          was_asked: found.wasAsked,
        }
      : null,
  ).toEqual(end && { ...end, path: text(end["path"] as VectorText) });
});

test.each(vectors.held_back)("hold back: $name", ({ data: output, size }) => {
  expect(heldBackBytes(data(output), nonce)).toBe(size);
});

test.each(vectors.unfinished_mark)("an unfinished mark: $name", ({ data: output, size }) => {
  expect(unfinishedMarkBytes(data(output))).toBe(size);
});

test.each(vectors.without_marks)("without marks: $name", ({ data: output, left }) => {
  expect(withoutMarks(data(output)).equals(data(left))).toBe(true);
});

test.each(vectors.without_prompt)("without a prompt: $name", ({ data: output, left }) => {
  expect(withoutPrompt(data(output)).equals(data(left))).toBe(true);
});

test.each(vectors.is_refusal)("is $output a refusal: $is", ({ output, is }) => {
  expect(isNoTerminalError(output)).toBe(is);
});

test.each(vectors.is_key)("is $text a key: $is", ({ text: key, is }) => {
  expect(KEY_NAME.test(key)).toBe(is);
});

test.each(vectors.command_line)("the line of a command: $name", (given) => {
  const state = {
    ends: ENDS,
    status: given.status,
    options: given.options,
    isMarked: given.is_marked,
    cwd: given.cwd,
  };
  expect(commandLine(given.text, nonce, state)).toBe(withChannel(given.line));
});

test.each(vectors.refused)("bash is not given $name", ({ text: command, cwd, message }) => {
  const state = { ends: ENDS, status: 0, options: "", isMarked: true, cwd };
  expect(() => commandLine(text(command), nonce, state)).toThrow(message);
});

test("a question is one line", () => {
  expect(askLine(nonce, ENDS)).toBe(withChannel(vectors.ask_line));
});
