/**
 * Makes hidden, reordering and padding characters of a text visible, so that the text cannot
 * deceive the user.
 */

/** Maximum columns of a line, so that no text is beyond the right edge of an editor. */
const MAX_COLUMNS = 72;
/**
 * More spaces than this in a row are replaced by their number: they could move text out of sight.
 */
const MAX_BLANKS = 24;
const MAX_EMPTY_LINES = 3;

/**
 * Invisible characters, spaces other than U+0020, and right-to-left letters, which make a screen
 * reorder the text around them.
 */
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}|[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/gu;
/** Three or more combining marks on a letter can cover other lines. */
const STACKED = /\p{M}{3,}/gu;
const BLANKS = new RegExp(` {${MAX_BLANKS + 1},}`, "g");
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\uff01-\uff60]/u;

/** One line with hidden characters spelled out: `⟨ESC⟩`, `⇥`, `⟨U+202E⟩`. */
export function visible(text: string): string {
  return text
    .replace(UNSEEN, spelt)
    .replace(STACKED, (marks) => Array.from(marks, code).join(""))
    .replace(BLANKS, (blanks) => ` ⟨${blanks.length} spaces⟩ `);
}

/** One line for labels and dialogs, without icons, links and hidden characters. */
export function labelText(text: string): string {
  return withoutLinks(visible(text)).replaceAll("$(", "$ (");
}

/** A range of a text, in UTF-16 units. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/**
 * All lines, wrapped to the width of an editor. `indent` starts each line, `more` a wrapped one.
 * Under each of `marked`, a line of blanks and `^` follows.
 */
export function visibleLines(
  text: string,
  indent = "│ ",
  more = "┊ ",
  marked: readonly TextRange[] = [],
): string[] {
  const lines: string[] = [];
  let empty = 0;
  let start = 0;
  const skip = (): void => {
    if (empty > MAX_EMPTY_LINES) lines.push(`${indent}⟨${empty} empty lines⟩`);
    else for (let n = 0; n < empty; n++) lines.push(indent.trimEnd());
    empty = 0;
  };
  for (const line of text.split("\n")) {
    const shown = visible(line);
    const ranges = rangesIn(line, start, marked);
    start += line.length + 1;
    if (!shown.trim()) {
      empty += 1;
      continue;
    }
    skip();
    let at = 0;
    wrapped(shown).forEach((piece, n, pieces) => {
      const lead = n ? more : indent;
      // Marks in the middle of a long part would only push the end of the text out of sight.
      const isMiddle =
        n > 0 &&
        n < pieces.length - 1 &&
        ranges.some(({ start, end }) => start <= at && end >= at + piece.length);
      lines.push(lead + piece, ...(isMiddle ? [] : marks(piece, at, ranges, lead.length)));
      at += piece.length;
    });
  }
  skip();
  return lines;
}

/** Where ranges of the text are in the visible form of one of its lines. */
function rangesIn(line: string, start: number, marked: readonly TextRange[]): TextRange[] {
  const column = (at: number): number =>
    visible(line.slice(0, Math.min(Math.max(at - start, 0), line.length))).length;
  return marked
    .filter((each) => each.start < start + line.length && each.end > start)
    .map((each) => ({ start: column(each.start), end: column(each.end) }));
}

/**
 * A line of `^` under the parts of `piece` in the ranges; empty if none. `piece` starts at `at`.
 */
function marks(piece: string, at: number, ranges: readonly TextRange[], lead: number): string[] {
  let line = "";
  let position = at;
  for (const char of piece) {
    const isMarked = ranges.some(({ start, end }) => start <= position && position < end);
    line += (isMarked ? "^" : " ").repeat(columnsOf(char));
    position += char.length;
  }
  return line.trim() ? [" ".repeat(lead) + line.trimEnd()] : [];
}

/**
 * `text` with broken Markdown links. VS Code's messages and prompts would turn `[text](command:…)`
 * into a link that runs a command.
 */
export function withoutLinks(text: string): string {
  return text.replaceAll("](", "] (");
}

/** Shortens a text to one line for a list. */
export function shortened(text: string, length = 120): string {
  const line = visible(text.trim().replaceAll("\n", " ⏎ "));
  return line.length > length ? `${line.slice(0, length)}…` : line;
}

const NAMES: Readonly<Record<string, string>> = {
  "\0": "⟨NUL⟩",
  "\x07": "⟨BEL⟩",
  "\b": "⟨BS⟩",
  "\t": "⇥",
  "\n": "⟨LF⟩",
  "\r": "⟨CR⟩",
  "\x1b": "⟨ESC⟩",
  "\x7f": "⟨DEL⟩",
};

function spelt(char: string): string {
  return NAMES[char] ?? code(char);
}

function code(char: string): string {
  const number = char.codePointAt(0) ?? 0;
  return `⟨U+${number.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

function columnsOf(char: string): number {
  return WIDE.test(char) ? 2 : 1;
}

function wrapped(line: string): string[] {
  if (line.length <= MAX_COLUMNS / 2) return [line];
  const pieces: string[] = [];
  let piece = "";
  let width = 0;
  for (const char of line) {
    const columns = columnsOf(char);
    if (width + columns > MAX_COLUMNS) {
      pieces.push(piece);
      [piece, width] = ["", 0];
    }
    piece += char;
    width += columns;
  }
  return [...pieces, piece];
}
