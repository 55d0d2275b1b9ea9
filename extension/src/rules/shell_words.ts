/** Words of a command: their text after quote removal, if it is known without running anything. */
import type { Assignment, DoubleQuotedChild, Word, WordPart } from "unbash";

export interface TextSpan {
  readonly start: number;
  readonly end: number;
}

export interface ShellWord extends TextSpan {
  readonly text: string;
  /** After quote removal; undefined if the word has an expansion. */
  readonly value: string | undefined;
  /** The literal text before the first expansion; for a known word, the whole value. */
  readonly prefix: string;
  /** Whether an expansion can turn the word into no word or into several words. */
  readonly splits: boolean;
}

/** A word of which nothing is known, such as those that xargs appends. */
export function unknownWord(
  span: TextSpan,
  text: string,
  { splits }: { splits: boolean },
): ShellWord {
  return { text, start: span.start, end: span.end, value: undefined, prefix: "", splits };
}

export function shellWord(word: Word, span: TextSpan): ShellWord {
  const { text } = word;
  if (hasTilde(text)) return unknownWord(span, text, { splits: splits(word.parts ?? []) });
  if (!word.parts) return { text, ...span, value: word.value, prefix: word.value, splits: false };
  let prefix = "";
  for (const part of word.parts) {
    const { literal, whole } = literalOf(part);
    prefix += literal;
    if (!whole) return { text, ...span, value: undefined, prefix, splits: splits(word.parts) };
  }
  return { text, ...span, value: prefix, prefix, splits: false };
}

/** An argument of `export`, `declare` and so on, which the parser returns as an assignment. */
export function assignmentWord(assignment: Assignment, span: TextSpan): ShellWord {
  const { text, name, append, value } = assignment;
  if (value.type === "ArrayValue" || assignment.index)
    return unknownWord(span, text, { splits: false });
  const start = `${name}${append ? "+=" : "="}`;
  const word = shellWord(value, span);
  return {
    ...word,
    text,
    value: word.value === undefined ? undefined : start + word.value,
    prefix: start + word.prefix,
    splits: false,
  };
}

/** All text of a word that is not substituted. */
export function literalText({ parts, value }: Word): string {
  return parts ? parts.map(partText).join("") : value;
}

function partText(part: WordPart | DoubleQuotedChild): string {
  if (part.type === "DoubleQuoted") return part.parts.map(partText).join("");
  return "value" in part && typeof part.value === "string" ? part.value : "";
}

/**
 * Whether text that the parser reads as literal has characters that bash does not read as literal.
 *
 * For example, the parser reads `1>(cmd)` as a plain word, but bash runs cmd.
 */
export function hasOperator(word: Word): boolean {
  const texts = word.parts
    ? word.parts.flatMap((part) => (part.type === "Literal" ? [part.text] : []))
    : [word.text];
  return texts.some((text) => OPERATOR.test(text.replace(/\\./gs, "")));
}

const OPERATOR = /[<>()|&;`'"]|\$[\w{(['"@*#?$!-]/;

/** Bash expands `~` at the start of a word, and in a word like `a=b` also after `=` or `:`. */
function hasTilde(text: string): boolean {
  return text.startsWith("~") || /^[A-Za-z_]\w*\+?=(?:.*:)?~/s.test(text);
}

interface Literal {
  readonly literal: string;
  /** False if an expansion follows the literal text. */
  readonly whole: boolean;
}

function literalOf(part: WordPart): Literal {
  switch (part.type) {
    case "Literal":
    case "SingleQuoted":
      return { literal: part.value, whole: true };
    case "AnsiCQuoted":
      return isPlainAnsiC(part.text.slice(2, -1))
        ? { literal: part.value, whole: true }
        : { literal: "", whole: false };
    case "DoubleQuoted":
      return quotedLiteral(part.parts);
    default:
      return { literal: "", whole: false };
  }
}

const ANSI_C_ESCAPE =
  /\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|[abeEfnrtv\\'"?]|)/g;

/** Whether every escape in `$'…'` is a character. NUL ends the string; a byte may be invalid. */
function isPlainAnsiC(source: string): boolean {
  return [...source.matchAll(ANSI_C_ESCAPE)].every(([whole, octal, hex, short, long]) => {
    const byte = octal === undefined ? hex && parseInt(hex, 16) : parseInt(octal, 8);
    if (byte !== undefined && byte !== "") return byte > 0 && byte < 0x80;
    const digits = short ?? long;
    if (digits === undefined) return whole.length > 1;
    const code = parseInt(digits, 16);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
  });
}

function quotedLiteral(parts: readonly DoubleQuotedChild[]): Literal {
  let literal = "";
  for (const part of parts) {
    if (part.type !== "Literal") return { literal, whole: false };
    literal += part.value;
  }
  return { literal, whole: true };
}

function splits(parts: readonly WordPart[]): boolean {
  return parts.some((part) => {
    if (part.type === "DoubleQuoted") return part.parts.some(isAllArguments);
    if (part.type === "AnsiCQuoted") return false;
    // An empty process substitution, such as `<()`, becomes no word.
    if (part.type === "ProcessSubstitution") return !part.script?.commands.length;
    return !literalOf(part).whole;
  });
}

/** `"$@"` becomes several words although it is quoted. */
function isAllArguments(part: DoubleQuotedChild): boolean {
  return (
    (part.type === "SimpleExpansion" && part.text === "$@") ||
    (part.type === "ParameterExpansion" && part.parameter === "@")
  );
}
