/** Reads outputs of cells: text, errors, and images as data URLs, within limits. No I/O. */
import { shortOutput } from "../common/shown_output";
import { withoutEscapes } from "../common/terminal_text";

/** Maximum bytes of all images of an answer. */
const MAX_IMAGE_BYTES = 4 << 20;
const MAX_IMAGES = 20;
const STREAMS: Readonly<Record<string, string>> = {
  "application/vnd.code.notebook.stdout": "stdout",
  "application/vnd.code.notebook.stderr": "stderr",
};
const ERROR = "application/vnd.code.notebook.error";
/** Of several forms of one output, the first of these is read. */
const TEXTS = ["text/plain", "text/markdown", "application/json", "text/html", "text/latex"];

/** One form of an output, as `vscode.NotebookCellOutputItem`. */
export interface OutputForm {
  mime: string;
  data: Uint8Array;
}

export interface CellOutput {
  type: "text" | "image" | "error";
  /** Stream, MIME type or name of the exception. */
  name: string;
  text: string;
  /** Index of the image; null if it was left out. */
  image: number | null;
}

/** Collects the images of one answer. */
export class ImageList {
  readonly urls: string[] = [];
  leftOut = 0;
  private bytes = 0;

  /** The index of the image; null if it does not fit. */
  add(mime: string, data: Uint8Array): number | null {
    if (this.urls.length >= MAX_IMAGES || this.bytes + data.length > MAX_IMAGE_BYTES) {
      this.leftOut += 1;
      return null;
    }
    this.bytes += data.length;
    return this.urls.push(`data:${mime};base64,${Buffer.from(data).toString("base64")}`) - 1;
  }
}

/**
 * The outputs of a cell. Pieces of the same stream become one output. The texts together have at
 * most `limit` characters.
 */
export function readOutputs(
  outputs: readonly (readonly OutputForm[])[],
  images: ImageList,
  limit: number,
): { outputs: CellOutput[]; isCut: boolean } {
  const found: CellOutput[] = [];
  for (const forms of outputs)
    for (const output of readOutput(forms, images)) {
      const last = found.at(-1);
      const isStream = output.type === "text" && ["stdout", "stderr"].includes(output.name);
      if (last && isStream && last.type === "text" && last.name === output.name)
        last.text += output.text;
      else found.push(output);
    }
  let left = limit;
  let isCut = false;
  for (const output of found) {
    const kept = shortOutput(output.text, left);
    isCut ||= kept.isCut;
    left = Math.max(0, left - output.text.length);
    output.text = kept.text;
  }
  return { outputs: found, isCut };
}

function readOutput(forms: readonly OutputForm[], images: ImageList): CellOutput[] {
  const streams = forms.filter(({ mime }) => STREAMS[mime]);
  if (streams.length)
    return streams.map(({ mime, data }) => asText(STREAMS[mime] ?? mime, decoded(data)));
  const error = forms.find(({ mime }) => mime === ERROR);
  if (error) return [asError(decoded(error.data))];
  const picture = forms.find(({ mime }) => mime.startsWith("image/") && mime !== "image/svg+xml");
  const plain = TEXTS.flatMap((mime) => forms.filter((form) => form.mime === mime))[0];
  const text = plain ? decoded(plain.data) : "";
  if (picture) {
    const image = images.add(picture.mime, picture.data);
    return [{ type: "image", name: picture.mime, text, image }];
  }
  if (plain) return [asText(plain.mime, text)];
  return forms.slice(0, 1).map(({ mime }) => asText(mime, ""));
}

function asText(name: string, text: string): CellOutput {
  return { type: "text", name, text: withoutEscapes(text), image: null };
}

function asError(json: string): CellOutput {
  const { name = "Error", message = "", stack = "" } = JSON.parse(json) as Record<string, string>;
  const trace = withoutEscapes(stack);
  const line = `${name}: ${message}`;
  const text = trace.includes(message) && trace ? trace : [line, trace].filter(Boolean).join("\n");
  return { type: "error", name, text, image: null };
}

function decoded(data: Uint8Array): string {
  return Buffer.from(data).toString("utf8");
}
