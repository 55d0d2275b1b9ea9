/** Reduces the stream of VS Code's shell integration to program output. */

const ESC = "\u001b";
const BEL = "\u0007";
const MARKS = new RegExp(
  `${ESC}\\](?:633|133);[^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)|${ESC}\\[\\?2004[hl]`,
  "g",
);
const UNFINISHED = new RegExp(`(?:${ESC}(?:\\][136]?[^${BEL}]*|\\[(?:\\?[0-9]*)?)?|\\r)$`);
/** Maximum characters held back as a possible start of a mark. */
const MAX_HELD = 4096;

/** A streaming filter: removes marks and converts CR LF to LF. */
export class IntegrationOutput {
  private rest = "";

  add(piece: string): string {
    const text = this.rest + piece;
    const at = text.search(UNFINISHED);
    const cut = at < 0 || text.length - at > MAX_HELD ? text.length : at;
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
