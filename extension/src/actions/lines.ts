/** Line arithmetic on strings. A line ends after `\n` and nowhere else. */

/** The position after `count` newlines from `start` on, or the end if there are fewer. */
export function skipLines(text: string, count: number, start = 0): number {
  let at = start;
  for (let left = count; left > 0; left -= 1) {
    const newline = text.indexOf("\n", at);
    if (newline < 0) return text.length;
    at = newline + 1;
  }
  return at;
}

/** Lines `start` up to but not including `end`, 0-based; -1 is the end of the text. */
export function sliceLines(text: string, start: number, end: number): string {
  const first = skipLines(text, start);
  return end < 0
    ? text.slice(first)
    : text.slice(first, skipLines(text, Math.max(end - start, 0), first));
}

/** Counts lines, including a last line without a newline. */
export function countLines(text: string): number {
  return countNewlines(text) + (text && !text.endsWith("\n") ? 1 : 0);
}

export function countNewlines(text: string, end = text.length): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0 && at < end; at = text.indexOf("\n", at + 1))
    count += 1;
  return count;
}

export function unixLines(text: string): string {
  return text.includes("\r") ? text.replaceAll("\r\n", "\n") : text;
}

/** Whether all line endings are CR LF. False for mixed line endings, and if there are none. */
export function isCrlf(text: string): boolean {
  if (!text.includes("\r\n")) return false;
  return !/(^|[^\r])\n/.test(text);
}

/** Splits a text into lines, each with its newline. */
export function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Adds a newline to a non-empty text that does not end with one. */
export function endWithNewline(text: string): string {
  if (!text || text.endsWith("\n")) return text;
  return text + (isCrlf(text) ? "\r\n" : "\n");
}
