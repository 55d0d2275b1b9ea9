/** Applies edits to a text, as VS Code does. */

export interface OffsetEdit {
  start: number;
  end: number;
  text: string;
}

/** The text with all edits. Edits at the same place are applied in their order. */
export function withEdits(text: string, edits: readonly OffsetEdit[]): string {
  const sorted = [...edits].sort((one, other) => one.start - other.start || one.end - other.end);
  const parts: string[] = [];
  let at = 0;
  for (const { start, end, text: fresh } of sorted) {
    parts.push(text.slice(at, start), fresh);
    at = Math.max(at, end);
  }
  return [...parts, text.slice(at)].join("");
}
