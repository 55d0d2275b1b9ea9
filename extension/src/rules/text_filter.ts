/**
 * The strict filter: refuses command texts on which bash, a parser and a reader could disagree.
 *
 * The filter looks at characters only and runs before any parser, also on a text inside a text
 * (`bash -c`, backticks with escapes).
 */

export const MAX_TEXT_CHARS = 10_000;

// Unpaired surrogates (Cs) have no encoding, so the shell would receive other bytes.
const HIDDEN = /[\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{Cs}]/u;
const CONTROL = /\p{Cc}/u;

/** Why the text cannot be trusted to any parser, or undefined. */
export function textProblem(text: string): string | undefined {
  if (text.length > MAX_TEXT_CHARS && Array.from(text).length > MAX_TEXT_CHARS)
    return `The command is longer than ${MAX_TEXT_CHARS} characters.`;
  for (const character of text) {
    if (character === " " || character === "\t" || character === "\n") continue;
    if (CONTROL.test(character)) return `It contains the control character ${codeOf(character)}.`;
    if (HIDDEN.test(character)) return `It contains the invisible character ${codeOf(character)}.`;
  }
  return undefined;
}

/**
 * Why a backslash at the end of a line is not understood, or undefined.
 *
 * A run of backslashes continues the line only if its length is odd; the rest are escaped.
 * `isLiteral` is true for a position where a backslash is not special, as in single quotes.
 */
export function continuationProblem(
  text: string,
  isLiteral: (position: number) => boolean = () => false,
): string | undefined {
  for (const { 0: run, index } of text.matchAll(/\\+/g)) {
    const next = text[index + run.length];
    if (run.length % 2 === 0 || (next !== undefined && next !== "\n")) continue;
    if (next !== undefined && isLiteral(index)) continue;
    if (next === undefined || index + run.length + 1 === text.length)
      return "It ends with a backslash and is not finished.";
    const before = run.length > 1 ? "\\" : text[index - 1];
    if (before !== " " && before !== "\t")
      return "It continues a line with a backslash that does not follow a blank.";
  }
  return undefined;
}

function codeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}
