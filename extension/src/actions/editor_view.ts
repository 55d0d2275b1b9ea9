/** Formats the result of the editor's `view` command. Agents rely on the exact wording. */
import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import * as path from "node:path";
import { countLines, countNewlines, sliceLines } from "./lines";

/** Characters of a file or directory that one view shows. */
const VIEW_LIMIT = 16_000;

const clippedNote = (what: string): string =>
  `Due to the max output limit, only part of this ${what} has been shown to you.`;

/**
 * Cuts `text` to the limit and numbers its lines from `first`. `whole` is the whole file, if known.
 */
export function showFile(
  text: string,
  shown: string,
  options: { first?: number; whole?: string } = {},
): string {
  const { first = 1, whole } = options;
  const part = clip(text);
  let lines = numbered(part, first);
  if (part.length < text.length) {
    const last = first + countNewlines(part);
    const total = whole === undefined ? "" : ` of ${countLines(whole)}`;
    lines +=
      `\n${clippedNote("file")} Above are lines ${first} to ${last}${total}; ask for` +
      " others with `view_range`.";
  }
  return `Here's the result of running \`cat -n\` on ${shown}:\n${lines}\n`;
}

/** Shows `count` lines from `line` on, with four lines of context before and after. */
export function showSnippet(text: string, line: number, count: number, shown: string): string {
  const around = 4;
  const first = Math.max(1, line - around);
  const part = sliceLines(text, first - 1, line + count - 1 + around).replace(/\n$/, "");
  return showFile(part, `a snippet of ${shown}`, { first, whole: text });
}

/**
 * Lists a directory two levels deep, without hidden entries, whose number it adds. Links to
 * directories are not followed.
 */
export async function showDirectory(directory: string, shown: string): Promise<string> {
  const base = shown.replace(/\/+$/, "");
  const entries = await readdir(directory, { withFileTypes: true });
  const lines = [`${base}/`];
  let size = 0;
  for (const line of await twoLevels(entries, directory, base)) {
    size += line.length + 1;
    if (size > VIEW_LIMIT) {
      lines.push(`${clippedNote("directory")} View a directory inside, or use \`ls\`.`);
      break;
    }
    lines.push(line);
  }
  const hidden = entries.filter((entry) => entry.name.startsWith(".")).length;
  if (hidden)
    lines.push(
      `\n${hidden} hidden files/directories in this directory are excluded.` +
        ` You can use 'ls -la ${shown}' to see them.`,
    );
  const frame = `Here's the files and directories up to 2 levels deep in ${shown}, excluding hidden items:`;
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

/** As many whole lines as fit, or the start of the first line. */
function clip(text: string): string {
  if (text.length <= VIEW_LIMIT) return text;
  const newline = text.lastIndexOf("\n", VIEW_LIMIT - 1);
  return text.slice(0, newline > 0 ? newline : VIEW_LIMIT);
}

function numbered(text: string, first: number): string {
  return text
    .split("\n")
    .map((line, index) => `${String(first + index).padStart(6)}\t${line}`)
    .join("\n");
}
