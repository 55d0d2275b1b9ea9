/**
 * Decodes and encodes text files without loss: encoding, byte order mark and line endings are kept.
 */
import { Failure } from "../common/failure";
import { isCrlf, unixLines } from "./lines";

/** Bytes at the start of a file that decide whether it is binary. */
export const SAMPLE_BYTES = 8192;

type Encoding = "utf-8" | "utf-16le" | "utf-16be" | "windows-1252" | "latin1";

const BYTE_ORDER_MARKS: readonly (readonly [Buffer, Encoding])[] = [
  [Buffer.from([0xef, 0xbb, 0xbf]), "utf-8"],
  [Buffer.from([0xff, 0xfe]), "utf-16le"],
  [Buffer.from([0xfe, 0xff]), "utf-16be"],
];
/** Data that is not UTF-8 is binary if it has more than one control byte per this many bytes. */
const BYTES_PER_CONTROL = 50;
/** The five bytes that have no character in windows-1252. */
const UNDEFINED_1252 = /[\x81\x8d\x8f\x90\x9d]/;

export class TextFormat {
  constructor(
    readonly encoding: Encoding = "utf-8",
    readonly mark: Buffer = Buffer.alloc(0),
    readonly crlf = false,
  ) {}

  encode(text: string, displayPath: string): Buffer {
    const written = this.crlf ? unixLines(text).replaceAll("\n", "\r\n") : text;
    return Buffer.concat([this.mark, this.bytes(written, displayPath)]);
  }

  private bytes(text: string, displayPath: string): Buffer {
    if (this.encoding === "utf-8") return Buffer.from(text, "utf8");
    if (this.encoding === "utf-16le") return Buffer.from(text, "utf16le");
    if (this.encoding === "utf-16be") return Buffer.from(text, "utf16le").swap16();
    const codes = this.encoding === "latin1" ? LATIN1 : codes1252();
    const bytes = Array.from(text, (char) => {
      const code = codes.get(char);
      if (code !== undefined) return code;
      throw new Failure(
        "file.undecodable",
        `${displayPath} is encoded in ${this.encoding}, which cannot represent '${char}'. Convert the file first (\`iconv\`), or replace the whole file, which then becomes UTF-8`,
      );
    });
    return Buffer.from(bytes);
  }
}

export interface DecodedText {
  content: string;
  format: TextFormat;
}

/** Decodes a text file. `format.encode` gives the same bytes. Fails with `file.binary`. */
export function decode(data: Buffer, displayPath: string): DecodedText {
  for (const [mark, encoding] of BYTE_ORDER_MARKS) {
    if (!data.subarray(0, mark.length).equals(mark)) continue;
    const content = decodeStrictly(data.subarray(mark.length), encoding);
    if (content !== undefined)
      return { content, format: new TextFormat(encoding, mark, isCrlf(content)) };
  }
  const sample = data.subarray(0, SAMPLE_BYTES);
  if (sample.includes(0)) throw binaryFile(displayPath);
  const content = decodeStrictly(data, "utf-8");
  if (content !== undefined)
    return { content, format: new TextFormat("utf-8", undefined, isCrlf(content)) };
  if (hasManyControls(sample)) throw binaryFile(displayPath);
  const latin = data.toString("latin1");
  const encoding = UNDEFINED_1252.test(latin) ? "latin1" : "windows-1252";
  const legacy = encoding === "latin1" ? latin : from1252(latin);
  return { content: legacy, format: new TextFormat(encoding, undefined, isCrlf(legacy)) };
}

function decodeStrictly(data: Buffer, encoding: Encoding): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
}

function binaryFile(displayPath: string): Failure {
  return new Failure("file.binary", "ERROR_BINARY_FILE", { path: displayPath });
}

function hasManyControls(sample: Buffer): boolean {
  let controls = 0;
  for (const byte of sample)
    if (
      byte < 7 ||
      byte === 0x0b ||
      (byte >= 0x0e && byte < 0x20 && byte !== 0x1b) ||
      byte === 0x7f
    )
      controls += 1;
  return controls * BYTES_PER_CONTROL > sample.length;
}

const LATIN1 = new Map(Array.from({ length: 256 }, (_, code) => [String.fromCharCode(code), code]));

/** Characters 0x80 to 0x9f of windows-1252, which some versions of Node decode as Latin-1. */
const C1_OF_1252 = "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ";

function from1252(latin: string): string {
  return latin.replace(/[\x80-\x9f]/g, (char) => C1_OF_1252.charAt(char.charCodeAt(0) - 0x80));
}

function codes1252(): Map<string, number> {
  return new Map([...LATIN1].map(([char, code]) => [from1252(char), code]));
}
