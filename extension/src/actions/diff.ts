/**
 * Unified diffs without context lines. The time depends on the size of the change, not on that of
 * the file.
 */
import { splitLines } from "./lines";

/** A change of more lines is shown as one block: time and memory grow with its square. */
const MAX_EDITS = 2000;

export type LineChange = readonly [
  oldStart: number,
  oldEnd: number,
  newStart: number,
  newEnd: number,
];

/** Empty when nothing changed. */
export function unifiedDiff(before: string, after: string, displayPath: string): string {
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
  return `--- ${displayPath}\n+++ ${displayPath}\n${hunks.join("")}`.replace(/\n$/, "");
}

/** The line ranges of `old` and the ranges of `fresh` that replace them, in order. */
export function lineChanges(old: readonly string[], fresh: readonly string[]): LineChange[] {
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

function changes(a: readonly string[], b: readonly string[]): LineChange[] {
  const pairs = a.length && b.length ? matches(a, b) : undefined;
  if (!pairs) return [[0, a.length, 0, b.length]];
  const found: LineChange[] = [];
  let [i, j] = [0, 0];
  for (const [x, y] of [...pairs, [a.length, b.length] as const]) {
    if (x > i || y > j) found.push([i, x, j, y]);
    [i, j] = [x + 1, y + 1];
  }
  return found;
}

/**
 * Pairs of equal lines of a longest common subsequence, in order (Myers' algorithm). Undefined if
 * more than `MAX_EDITS` lines would have to be removed and inserted.
 */
function matches(
  a: readonly string[],
  b: readonly string[],
): (readonly [number, number])[] | undefined {
  const most = Math.min(a.length + b.length, MAX_EDITS);
  const middle = most + 1;
  // The furthest line of `a` that is reached on each diagonal (line of `a` minus line of `b`).
  const furthest = new Int32Array(2 * middle + 1);
  const history: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    history.push(furthest.slice(middle - edits - 1, middle + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const at = middle + diagonal;
      const [left, right] = [furthest[at - 1] ?? 0, furthest[at + 1] ?? 0];
      let x = isInsertion(diagonal, edits, left, right) ? right : left + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x += 1;
      furthest[at] = x;
      if (x >= a.length && x - diagonal >= b.length) return pairsOf(history, a.length, b.length);
    }
  }
  return undefined;
}

/** Walks back from the ends of both texts, through the states before each step. */
function pairsOf(history: Int32Array[], endA: number, endB: number): (readonly [number, number])[] {
  const pairs: (readonly [number, number])[] = [];
  let [x, y] = [endA, endB];
  for (let edits = history.length - 1; edits >= 0; edits -= 1) {
    const state = history[edits] ?? new Int32Array();
    const at = (diagonal: number): number => state[diagonal + edits + 1] ?? 0;
    const diagonal = x - y;
    const from = isInsertion(diagonal, edits, at(diagonal - 1), at(diagonal + 1))
      ? diagonal + 1
      : diagonal - 1;
    const [fromX, fromY] = edits ? [at(from), at(from) - from] : [0, 0];
    while (x > fromX && y > fromY) pairs.push([--x, --y]);
    [x, y] = [fromX, fromY];
  }
  return pairs.reverse();
}

/** Whether the best path to a diagonal inserts a line of `b`, rather than removing one of `a`. */
function isInsertion(diagonal: number, edits: number, left: number, right: number): boolean {
  return diagonal === -edits || (diagonal !== edits && left < right);
}

/** `line,count` of a hunk header. For an empty range, `line` is the line before it. */
function span(start: number, end: number): string {
  const count = end - start;
  const line = start + (count > 0 ? 1 : 0);
  return count === 1 ? `${line}` : `${line},${count}`;
}

function marked(sign: string, line: string): string {
  return line.endsWith("\n") ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`;
}
