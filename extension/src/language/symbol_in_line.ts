/** Finds a symbol in a line by its text: agents count lines well, and columns badly. */
import { Failure } from "../common/failure";

/** Maximum characters of a line in an error message. */
const MAX_LINE_CHARS = 300;
const WORD = /[\p{L}\p{N}\p{M}_$]/u;

export interface SymbolSpan {
  /** In UTF-16 units from the start of the line; `end` is exclusive. */
  start: number;
  end: number;
}

/** The name of a line, for messages. */
export interface LineName {
  displayPath: string;
  /** From 1. */
  line: number;
}

/** The symbol as a whole word; of several occurrences, the one with this number, from 1. */
export function symbolInLine(
  text: string,
  symbol: string,
  occurrence: number,
  { displayPath, line }: LineName,
): SymbolSpan {
  const found = wholeWords(text, symbol);
  const span = found[occurrence - 1];
  if (span) return span;
  const times = found.length
    ? `occurs ${found.length === 1 ? "once" : `${found.length} times`}, so there is no occurrence ${occurrence},`
    : "is not a whole word";
  throw new Failure(
    "symbol.not_found",
    `'${symbol}' ${times} in line ${line} of ${displayPath}. The line is: ${shortened(text)}`,
  );
}

function wholeWords(text: string, symbol: string): SymbolSpan[] {
  const found: SymbolSpan[] = [];
  if (!symbol) return found;
  for (let at = text.indexOf(symbol); at >= 0; at = text.indexOf(symbol, at + 1)) {
    const end = at + symbol.length;
    const isWhole =
      !areOneWord(charBefore(text, at), symbol) && !areOneWord(symbol.slice(-1), text.slice(end));
    if (isWhole) found.push({ start: at, end });
  }
  return found;
}

/** Whether the last character of `left` and the first of `right` belong to one word. */
function areOneWord(left: string, right: string): boolean {
  const first = String.fromCodePoint(right.codePointAt(0) ?? 32);
  return left !== "" && right !== "" && WORD.test(left) && WORD.test(first);
}

/** The character before a position. A surrogate pair is one character. */
function charBefore(text: string, at: number): string {
  return Array.from(text.slice(Math.max(0, at - 2), at)).at(-1) ?? "";
}

function shortened(text: string): string {
  return text.length > MAX_LINE_CHARS ? `${text.slice(0, MAX_LINE_CHARS)}…` : text;
}
