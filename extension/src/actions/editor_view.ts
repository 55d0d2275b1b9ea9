/** Formats the result of the editor's `view` command. Agents rely on the exact wording. */
import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import * as path from "node:path";
import { countLines, countNewlines, sliceLines } from "./lines";

/** Maximum characters of a file or directory listing in one view. */
const MAX_VIEW_CHARS = 16_000;

const clippedNote = (what: string): string =>
  `Due to the max output limit, only part of this ${what} has been shown to you.`;

/**
 * Cuts `text` to `MAX_VIEW_CHARS` and numbers its lines from `firstLine`. `text` may be a part of a
 * file. Then `whole` is the text of the whole file, if known.
 */
export function showFile(
  text: string,
  displayPath: string,
  options: { firstLine?: number; whole?: string } = {},
): string {
  const { firstLine = 1, whole } = options;
  const part = clip(text);
  let lines = numbered(part, firstLine);
  if (part.length < text.length) {
    const last = firstLine + countNewlines(part);
    const total = whole === undefined ? "" : ` of ${countLines(whole)}`;
    lines +=
      `\n${clippedNote("file")} Above are lines ${firstLine} to ${last}${total}; ask for` +
      " others with `view_range`.";
  }
  return `Here's the result of running \`cat -n\` on ${displayPath}:\n${lines}\n`;
}

/** Shows `count` lines from `line` on, with four lines of context before and after. */
export function showSnippet(
  text: string,
  line: number,
  lineCount: number,
  displayPath: string,
): string {
  const contextLines = 4;
  const firstLine = Math.max(1, line - contextLines);
  const part = sliceLines(text, firstLine - 1, line + lineCount - 1 + contextLines).replace(
    /\n$/,
    "",
  );
  return showFile(part, `a snippet of ${displayPath}`, { firstLine, whole: text });
}

/**
 * Lists a directory two levels deep. Hidden entries are left out; a last line says how many there
 * are. Links to directories are not followed.
 */
export async function showDirectory(directory: string, displayPath: string): Promise<string> {
  const base = displayPath.replace(/\/+$/, "");
  const entries = await readdir(directory, { withFileTypes: true });
  const lines = [`${base}/`];
  let characters = 0;
  for (const line of await twoLevels(entries, directory, base)) {
    characters += line.length + 1;
    if (characters > MAX_VIEW_CHARS) {
      lines.push(`${clippedNote("directory")} View a directory inside, or use \`ls\`.`);
      break;
    }
    lines.push(line);
  }
  const hiddenCount = entries.filter((entry) => entry.name.startsWith(".")).length;
  if (hiddenCount)
    lines.push(
      `\n${hiddenCount} hidden files/directories in this directory are excluded.` +
        ` You can use 'ls -la ${displayPath}' to see them.`,
    );
  const frame = `Here's the files and directories up to 2 levels deep in ${displayPath}, excluding hidden items:`;
  return [frame, ...lines].join("\n");
}

async function twoLevels(entries: Dirent[], directory: string, base: string): Promise<string[]> {
  const lines: string[] = [];
  for (const entry of visible(entries)) {
    lines.push(`${base}/${entry.name}${entry.isDirectory() ? "/" : ""}`);
    if (!entry.isDirectory()) continue;
    const inside = await readdir(path.join(directory, entry.name), { withFileTypes: true }).catch(
      () => [],
    );
    for (const each of visible(inside))
      lines.push(`${base}/${entry.name}/${each.name}${each.isDirectory() ? "/" : ""}`);
  }
  return lines;
}

function visible(entries: Dirent[]): Dirent[] {
  return entries
    .filter((entry) => !entry.name.startsWith("."))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** As many whole lines as fit; if the first line alone is too long, its start. */
function clip(text: string): string {
  if (text.length <= MAX_VIEW_CHARS) return text;
  const newline = text.lastIndexOf("\n", MAX_VIEW_CHARS - 1);
  return text.slice(0, newline > 0 ? newline : MAX_VIEW_CHARS);
}

function numbered(text: string, firstLine: number): string {
  return text
    .split("\n")
    .map((line, index) => `${String(firstLine + index).padStart(6)}\t${line}`)
    .join("\n");
}
