/** What shell integration's stream holds besides a program's output: its own marks, and returns. */

const ESC = "\u001b";
const BEL = "\u0007";
const MARKS = new RegExp(
  `${ESC}\\](?:633|133);[^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)|${ESC}\\[\\?2004[hl]`,
  "g",
);
const UNFINISHED = new RegExp(`(?:${ESC}(?:\\][136]?[^${BEL}]*|\\[(?:\\?[0-9]*)?)?|\\r)$`);
/** Characters that may be held back as the beginning of a mark. */
const LONGEST = 4096;

/** Text in pieces, in; the same without marks and with plain newlines, out. */
export class IntegrationOutput {
  private rest = "";

  add(piece: string): string {
    const text = this.rest + piece;
    const at = text.search(UNFINISHED);
    const cut = at < 0 || text.length - at > LONGEST ? text.length : at;
    this.rest = text.slice(cut);
    return plain(text.slice(0, cut));
  }

  end(): string {
    const text = plain(this.rest);
    this.rest = "";
    return text;
  }
}

function plain(text: string): string {
  return text.replace(MARKS, "").replaceAll("\r\n", "\n");
}
