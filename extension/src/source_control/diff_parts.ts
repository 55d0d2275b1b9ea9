/** Chooses files and lines of a difference in the format of `git diff`. Pure rules. */

export interface DiffPart {
  /** The file's path, relative to the repository: the new one of a rename. */
  path: string;
  oldPath: string;
  lines: readonly string[];
}

/** One part for each file. */
export function diffParts(text: string): DiffPart[] {
  const parts: { path: string; oldPath: string; lines: string[] }[] = [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    if (line.startsWith("diff --git ")) parts.push({ ...pathsOf(line), lines: [] });
    parts.at(-1)?.lines.push(line);
  }
  return parts.map((part) => ({ ...part, ...exactPaths(part.lines, part) }));
}

/** The parts of a file, or of the files in a directory. An empty path means all. */
export function partsBelow(parts: readonly DiffPart[], path: string): DiffPart[] {
  const isBelow = (each: string): boolean => each === path || each.startsWith(`${path}/`);
  return path ? parts.filter((each) => isBelow(each.path) || isBelow(each.oldPath)) : [...parts];
}

/** The paths in `diff --git a/x b/x`. If a name contains ` b/`, only `exactPaths` finds them. */
function pathsOf(line: string): { path: string; oldPath: string } {
  const names = line.slice("diff --git ".length);
  const quotedNames = /^("(?:[^"\\]|\\.)*"|\S+) ("(?:[^"\\]|\\.)*"|.+)$/.exec(names);
  const half = names.slice(0, (names.length - 1) / 2);
  // Without a rename both names are equal, so they may have spaces.
  if (names === `${half} b/${half.slice(2)}`)
    return { path: half.slice(2), oldPath: half.slice(2) };
  const [, before = "", after = ""] = quotedNames ?? [];
  return { path: unquoted(after).slice(2), oldPath: unquoted(before).slice(2) };
}

function exactPaths(
  lines: readonly string[],
  found: { path: string; oldPath: string },
): { path: string; oldPath: string } {
  // `>>> 0` makes a large number of -1: without a line `@@`, all lines belong to the header.
  const header = lines.slice(0, lines.findIndex((line) => line.startsWith("@@")) >>> 0);
  const after = (start: string): string | undefined => {
    const line = header.find((each) => each.startsWith(start));
    return line === undefined ? undefined : unquoted(line.slice(start.length).replace(/\t$/, ""));
  };
  const [minus, plus] = [after("--- "), after("+++ ")];
  const named = (text: string | undefined): string | undefined =>
    text === undefined || text === "/dev/null" ? undefined : text.slice(2);
  const path = after("rename to ") ?? named(plus) ?? named(minus) ?? found.path;
  return { path, oldPath: after("rename from ") ?? named(minus) ?? path };
}

/** Git quotes names with special characters as C does, with octal bytes. */
function unquoted(name: string): string {
  if (!name.startsWith('"')) return name;
  const bytes: number[] = [];
  const inner = name.slice(1, -1);
  for (let i = 0; i < inner.length; i += 1) {
    const octal = /^\\([0-7]{3})/.exec(inner.slice(i));
    if (octal) {
      bytes.push(parseInt(octal[1] ?? "", 8));
      i += 3;
    } else if (inner[i] === "\\") {
      i += 1;
      bytes.push(...Buffer.from(ESCAPES[inner[i] ?? ""] ?? inner[i] ?? ""));
    } else bytes.push(...Buffer.from(inner[i] ?? ""));
  }
  return Buffer.from(bytes).toString("utf8");
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
