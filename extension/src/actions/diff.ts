/**
 * Unified diffs without context lines. The time depends on the size of the change, not of the file.
 */
import { splitLines } from "./lines";

/** Changes with more lines are shown as one block, because matching takes quadratic time. */
const MAX_MATCHED = 2000;

export type LineChange = readonly [
  oldStart: number,
  oldEnd: number,
  newStart: number,
  newEnd: number,
];

/** Empty when nothing changed. */
export function unifiedDiff(before: string, after: string, shown: string): string {
  if (before === after) return "";
  const old = splitLines(before);
  const fresh = splitLines(after);
  const hunks = lineChanges(old, fresh).map(([i1, i2, j1, j2]) =>
    [
      `@@ -${span(i1, i2)} +${span(j1, j2)} @@\n`,
      ...old.slice(i1, i2).map((line) => marked("-", line)),
      ...fresh.slice(j1, j2).map((line) => marked("+", line)),
    ].join(""),
  );
  return `--- ${shown}\n+++ ${shown}\n${hunks.join("")}`.replace(/\n$/, "");
}

/** Which lines of `old` have to be replaced by which of `fresh`, in order. */
export function lineChanges(old: string[], fresh: string[]): LineChange[] {
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (
    end < old.length - start &&
    end < fresh.length - start &&
    old[old.length - 1 - end] === fresh[fresh.length - 1 - end]
  )
    end += 1;
  const a = old.slice(start, old.length - end);
  const b = fresh.slice(start, fresh.length - end);
  if (!a.length && !b.length) return [];
  return changes(a, b).map(([i1, i2, j1, j2]) => [start + i1, start + i2, start + j1, start + j2]);
}

function changes(a: string[], b: string[]): LineChange[] {
  if (Math.max(a.length, b.length) > MAX_MATCHED || !a.length || !b.length)
    return [[0, a.length, 0, b.length]];
  const found: LineChange[] = [];
  let [i, j] = [0, 0];
  for (const [x, y] of [...matches(a, b), [a.length, b.length] as const]) {
    if (x > i || y > j) found.push([i, x, j, y]);
    [i, j] = [x + 1, y + 1];
  }
  return found;
}

/** Pairs of equal lines of a longest common subsequence, in order. */
function matches(a: string[], b: string[]): (readonly [number, number])[] {
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      longest[i * width + j] =
        a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const pairs: (readonly [number, number])[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i += 1;
    else j += 1;
  }
  return pairs;
}

/** `line,count` of a hunk header. For an empty range, the line before it. */
function span(start: number, end: number): string {
  const count = end - start;
  const line = start + (count > 0 ? 1 : 0);
  return count === 1 ? `${line}` : `${line},${count}`;
}

function marked(sign: string, line: string): string {
  return line.endsWith("\n") ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`;
}
