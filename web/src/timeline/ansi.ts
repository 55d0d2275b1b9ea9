// Parses terminal output into coloured text. Other escape sequences are removed.

export interface StyledText {
  text: string;
  /** CSS class, or empty. */
  style: string;
}

// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[([0-9;:?]*)([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>()].?)/g;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

export function styledPieces(output: string): StyledText[] {
  const found: StyledText[] = [];
  let style = { colour: -1, isBold: false };
  let from = 0;
  const push = (text: string): void => {
    const plain = afterCarriageReturns(text).replace(CONTROLS, "");
    if (plain !== "") found.push({ text: plain, style: classOf(style) });
  };
  for (const match of output.matchAll(ESCAPES)) {
    push(output.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") style = withCodes(style, match[1] ?? "");
  }
  push(output.slice(from));
  return found;
}

export function plainText(output: string): string {
  return styledPieces(output)
    .map((piece) => piece.text)
    .join("");
}

interface Style {
  colour: number;
  isBold: boolean;
}

function withCodes(style: Style, codes: string): Style {
  let { colour, isBold } = style;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i += 1) {
    const code = numbers[i] ?? 0;
    if (code === 0) [colour, isBold] = [-1, false];
    else if (code === 1) isBold = true;
    else if (code === 22) isBold = false;
    else if (code === 39) colour = -1;
    else if (code >= 30 && code <= 37) colour = code - 30;
    else if (code >= 90 && code <= 97) colour = code - 90;
    else if (code === 38 || code === 48) i += numbers[i + 1] === 5 ? 2 : 4;
  }
  return { colour, isBold };
}

function classOf({ colour, isBold }: Style): string {
  return [colour >= 0 ? `ansi-${colour}` : "", isBold ? "ansi-bold" : ""].filter(Boolean).join(" ");
}

/** Keeps only what follows the last carriage return of each line, as a terminal does. */
function afterCarriageReturns(text: string): string {
  return text
    .replace(/\r+\n/g, "\n")
    .split("\n")
    .map((line) => line.slice(line.lastIndexOf("\r") + 1))
    .join("\n");
}
