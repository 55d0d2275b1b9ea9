/**
 * The differences between a base text and the present text, and how to keep or undo a difference.
 *
 * A text is a list of lines without their ends, as VS Code has it: the empty line after a final
 * newline counts as a line, so `a\n` has two. Line numbers count from 0; ends are exclusive.
 */
import { lineChanges } from "../actions/diff";

export type Lines = readonly string[];

/** Lines of the base, and the lines of the text that replace them. One of the two may be empty. */
export interface Hunk {
  baseStart: number;
  baseEnd: number;
  start: number;
  end: number;
}

/** Replaces a range of a document. `text` has `\n` between its lines. */
export interface DocumentEdit {
  from: { line: number; character: number };
  to: { line: number; character: number };
  text: string;
}

/** The lines of a text with ends of any kind. */
export function linesOfText(text: string): string[] {
  return text.split(/\r\n|\r|\n/);
}

/** The more frequent line end of a text; undefined if the text has no line end. */
export function lineEndOf(text: string): "\n" | "\r\n" | undefined {
  const crlf = text.split("\r\n").length - 1;
  const lf = text.split("\n").length - 1 - crlf;
  if (crlf + lf === 0) return undefined;
  return crlf > lf ? "\r\n" : "\n";
}

export function hunksBetween(base: Lines, text: Lines): Hunk[] {
  return lineChanges(base, text).map(([baseStart, baseEnd, start, end]) => ({
    baseStart,
    baseEnd,
    start,
    end,
  }));
}

/** The base after the hunk was kept. */
export function keepHunk(base: Lines, text: Lines, hunk: Hunk): string[] {
  const { baseStart, baseEnd, start, end } = hunk;
  return [...base.slice(0, baseStart), ...text.slice(start, end), ...base.slice(baseEnd)];
}

/** The text after the hunk was undone. */
export function undoHunk(base: Lines, text: Lines, hunk: Hunk): string[] {
  const { baseStart, baseEnd, start, end } = hunk;
  return [...text.slice(0, start), ...base.slice(baseStart, baseEnd), ...text.slice(end)];
}

/**
 * The edit of a document that undoes the hunk. Lines at the end of a document have no newline after
 * them, so the newline before them is removed or inserted with them.
 */
export function undoEdit(base: Lines, text: Lines, hunk: Hunk): DocumentEdit {
  const { baseStart, baseEnd, start, end } = hunk;
  const old = base.slice(baseStart, baseEnd);
  const endOf = (line: number): DocumentEdit["from"] =>
    line < 0 ? { line: 0, character: 0 } : { line, character: text[line]?.length ?? 0 };
  const startOf = (line: number): DocumentEdit["from"] => ({ line, character: 0 });
  if (start < end && old.length)
    return { from: startOf(start), to: endOf(end - 1), text: old.join("\n") };
  if (start < end)
    return end < text.length
      ? { from: startOf(start), to: startOf(end), text: "" }
      : { from: endOf(start - 1), to: endOf(end - 1), text: "" };
  return start < text.length
    ? { from: startOf(start), to: startOf(start), text: `${old.join("\n")}\n` }
    : { from: endOf(start - 1), to: endOf(start - 1), text: `\n${old.join("\n")}` };
}

/**
 * Whether these hunks are differences of these two texts: all lines between them are equal. False
 * for hunks of an earlier text whose line numbers have moved.
 */
export function isDifference(base: Lines, text: Lines, hunks: readonly Hunk[]): boolean {
  let [i, j] = [0, 0];
  const whole = { baseStart: base.length, baseEnd: base.length, start: text.length, end: 0 };
  for (const hunk of [...hunks, whole]) {
    if (hunk.baseStart - i !== hunk.start - j || hunk.baseStart < i) return false;
    for (; i < hunk.baseStart; i += 1, j += 1) if (base[i] !== text[j]) return false;
    [i, j] = [hunk.baseEnd, hunk.end];
  }
  return true;
}

/** The line of the text at which a hunk is shown. Removed lines are shown at the next line. */
export function lineOf({ start }: Hunk, text: Lines): number {
  return Math.min(start, text.length - 1);
}

/** The hunk that covers a line of the text. */
export function hunkAtLine(hunks: readonly Hunk[], text: Lines, line: number): Hunk | undefined {
  return hunks.find(
    (hunk) => line >= lineOf(hunk, text) && line < Math.max(hunk.end, lineOf(hunk, text) + 1),
  );
}

/** A hunk with its lines, to recognize it when it has moved. */
export interface ShownHunk {
  hunk: Hunk;
  removed: Lines;
  added: Lines;
}

export function shownHunk(base: Lines, text: Lines, hunk: Hunk): ShownHunk {
  return {
    hunk,
    removed: base.slice(hunk.baseStart, hunk.baseEnd),
    added: text.slice(hunk.start, hunk.end),
  };
}

/**
 * The present hunk that has the lines that were shown. If several hunks have these lines, the hunk
 * must also have the same line numbers. Undefined if the text has changed.
 */
export function findShown(base: Lines, text: Lines, shown: ShownHunk): Hunk | undefined {
  const same = hunksBetween(base, text).filter((hunk) => {
    const now = shownHunk(base, text, hunk);
    return areSame(now.removed, shown.removed) && areSame(now.added, shown.added);
  });
  if (same.length <= 1) return same[0];
  return same.find(
    ({ start, baseStart }) => start === shown.hunk.start && baseStart === shown.hunk.baseStart,
  );
}

export function areSame(one: Lines, other: Lines): boolean {
  return one.length === other.length && one.every((line, index) => line === other[index]);
}
