/** The editing rules as pure functions on text. Agents rely on the exact wording of the errors. */
import { Failure } from "../common/failure";
import { shorten, strip } from "../common/text";
import { lineChanges } from "./diff";
import { countLines, countNewlines, skipLines, splitLines, unixLines } from "./lines";

const MAX_QUOTED = 1000;
const MAX_LINES_NAMED = 100;

/** A text after an edit, and the position of the change in it. */
export interface Edited {
  content: string;
  /** The first line that changed, from 1. */
  line: number;
  /** Number of lines of the new text. */
  lines: number;
}

/**
 * Replaces the only occurrence of `old`. Without an exact match, tries again without regard to line
 * endings and to white space around both strings, which agents get wrong most often.
 */
export function replaceOnce(text: string, old: string, fresh: string, displayPath: string): Edited {
  for (const [wanted, instead] of readings(text, old, fresh)) {
    const at = text.indexOf(wanted);
    if (at < 0) continue;
    if (occursAgain(text, wanted, at))
      throw new Failure(
        "edit.ambiguous",
        `No replacement was performed. Multiple occurrences of old_str \`${quoted(old)}\`` +
          ` in lines ${linesOf(text, wanted)}. Please ensure it is unique.`,
      );
    return {
      content: text.slice(0, at) + instead + text.slice(at + wanted.length),
      line: countNewlines(text, at) + 1,
      lines: countNewlines(instead) + 1,
    };
  }
  throw new Failure(
    "edit.no_match",
    `No replacement was performed, old_str \`${quoted(old)}\` did not appear verbatim in ${displayPath}.`,
  );
}

/** Inserts the lines of `fresh` after line `line`; 0 inserts them at the top. */
export function insertLines(text: string, line: number, fresh: string): Edited {
  const lineCount = countLines(text);
  if (line < 0 || line > lineCount)
    throw new Failure(
      "edit.invalid",
      `Invalid \`insert_line\` parameter: ${line}. It should be within the range of allowed values: [0, ${lineCount}]`,
    );
  const at = skipLines(text, line);
  const before = text.slice(0, at);
  const inserted = !before || before.endsWith("\n") ? `${fresh}\n` : `\n${fresh}`;
  return {
    content: before + inserted + text.slice(at),
    line: line + 1,
    lines: countNewlines(fresh) + 1,
  };
}

/** The lines of `after` that differ from `before`, as one range. */
export function changedRange(before: string, after: string): { first: number; end: number } {
  const found = lineChanges(splitLines(before), splitLines(after));
  return { first: found[0]?.[2] ?? 0, end: found.at(-1)?.[3] ?? 0 };
}

/**
 * Undoes in `text` the edit that turned `before` into `after`, and keeps later changes by others.
 * Returns undefined if those changes touch the same or adjacent lines.
 */
export function withoutEdit(before: string, after: string, text: string): string | undefined {
  if (text === after) return before;
  const [old, edited, now] = [splitLines(before), splitLines(after), splitLines(text)];
  const edit = lineChanges(edited, old);
  const since = lineChanges(edited, now);
  const lines: string[] = [];
  let at = 0;
  for (const [start, end, from, to] of [...edit].sort(([a], [b]) => a - b)) {
    if (since.some(([first, last]) => first <= end && last >= start)) return undefined;
    const moved = since
      .filter(([, last]) => last < start)
      .reduce((sum, [a, b, c, d]) => sum + (d - c) - (b - a), 0);
    lines.push(...now.slice(at, start + moved), ...old.slice(from, to));
    at = end + moved;
  }
  return [...lines, ...now.slice(at)].join("");
}

function* readings(text: string, old: string, fresh: string): Iterable<[string, string]> {
  yield [old, fresh];
  if (old.includes("\r\n")) yield [unixLines(old), unixLines(fresh)];
  else if (old.includes("\n") && text.includes("\r\n"))
    yield [old.replaceAll("\n", "\r\n"), unixLines(fresh).replaceAll("\n", "\r\n")];
  if (strip(old)) yield [strip(old), strip(fresh)];
}

function occursAgain(text: string, wanted: string, at: number): boolean {
  return wanted ? text.includes(wanted, at + wanted.length) : text !== "";
}

/** The numbers of the lines on which `wanted` begins, as text. A long list is shortened. */
function linesOf(text: string, wanted: string): string {
  const named: number[] = [];
  let [line, last] = [1, 0];
  for (const at of positions(text, wanted)) {
    line += countNewlines(text.slice(last, at));
    last = at;
    if (named.at(-1) === line) continue;
    if (named.length === MAX_LINES_NAMED) return `[${named.join(", ")}, …]`;
    named.push(line);
  }
  return `[${named.join(", ")}]`;
}

function* positions(text: string, wanted: string): Iterable<number> {
  for (let at = text.indexOf(wanted); at >= 0 && at <= text.length;) {
    yield at;
    // An empty text occurs everywhere; one position per line is enough.
    const next = wanted ? at + wanted.length : text.indexOf("\n", at) + 1 || text.length + 1;
    if (next > text.length) return;
    at = text.indexOf(wanted, next);
  }
}

function quoted(text: string): string {
  return shorten(text, MAX_QUOTED);
}
