/** Shortens an output: the middle of a long text is left out. */

export interface ShownOutput {
  text: string;
  isCut: boolean;
}

/** `leftOut`: characters that are missing before `text`. */
export function shortOutput(text: string, limit: number, leftOut = 0): ShownOutput {
  const before = leftOut ? `[${leftOut} characters left out]\n` : "";
  if (text.length <= limit) return { text: before + text, isCut: leftOut > 0 };
  const head = Math.floor(limit / 2);
  const tail = limit - head;
  const missing = text.length - limit;
  const end = tail ? text.slice(-tail) : "";
  const gap = `\n[${missing} characters left out]\n`;
  return { text: `${before}${text.slice(0, head)}${gap}${end}`, isCut: true };
}
