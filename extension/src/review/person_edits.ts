/** Moves a person's own changes into the base, so that only agents' changes stay to be reviewed. */
import { hunksBetween, type Hunk, type Lines } from "./hunks";

/**
 * The base after a person changed `before` into `after`. A change that touches no pending hunk is
 * made in the base too. A change inside a pending hunk becomes a part of that hunk.
 */
export function baseAfterEdit(base: Lines, before: Lines, after: Lines): string[] {
  const pending = hunksBetween(base, before);
  const result: string[] = [];
  let at = 0;
  for (const edit of hunksBetween(before, after)) {
    // Of `edit`, `baseStart` and `baseEnd` are lines of `before`.
    if (pending.some((hunk) => isTouched(hunk, edit))) continue;
    const shift = pending
      .filter((hunk) => hunk.end <= edit.baseStart)
      .reduce(
        (sum, { baseStart, baseEnd, start, end }) => sum + baseEnd - baseStart - end + start,
        0,
      );
    result.push(...base.slice(at, edit.baseStart + shift), ...after.slice(edit.start, edit.end));
    at = edit.baseEnd + shift;
  }
  return [...result, ...base.slice(at)];
}

/** Text inserted right before or after a hunk does not touch the hunk, unless the hunk is empty. */
function isTouched(hunk: Hunk, { baseStart: first, baseEnd: end }: Hunk): boolean {
  if (hunk.start === hunk.end && first === end) return hunk.start === first;
  return first < hunk.end && hunk.start < end;
}
