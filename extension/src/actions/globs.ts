/**
 * Compiles glob patterns to regular expressions over relative paths.
 *
 * `*` and `?` match within a name, `**` any number of directories, `[a-z]` and `{py,pyi}` as in a
 * shell. The expressions never backtrack, so matching takes time linear in the path however many
 * stars a pattern has; patterns are untrusted input. JavaScript has no atomic groups; a capturing
 * look-ahead followed by a back-reference is equivalent.
 */
import { Failure } from "../common/failure";

const MAX_ALTERNATIVES = 256;

/** Returns a function that tells whether a path, relative to the search directory, matches. */
export function compileGlob(pattern: string): (path: string) => boolean {
  if (pattern.startsWith("/") || pattern.split("/").includes(".."))
    throw invalid(
      `'${pattern}' leads out of the directory searched; give the directory as \`path\``,
    );
  try {
    const each = expandBraces(pattern.replace(/^\.\//, "")).map(
      (one) => new RegExp(`^(?:${new Translation().translate(one)})$`, "s"),
    );
    return (path) => each.some((expression) => expression.test(path));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw invalid(`'${pattern}' is not a glob pattern: ${why}`);
  }
}

export function expandBraces(pattern: string): string[] {
  const found = outerBraces(pattern);
  if (!found) return [pattern];
  const [start, commas, end] = found;
  const bounds = [start, ...commas, end];
  const heads = bounds
    .slice(0, -1)
    .map((from, index) => pattern.slice(from + 1, bounds[index + 1]))
    .flatMap(expandBraces)
    .map((option) => pattern.slice(0, start) + option);
  const tails = expandBraces(pattern.slice(end + 1));
  if (heads.length * tails.length > MAX_ALTERNATIVES)
    throw new Error(`its braces stand for more than ${MAX_ALTERNATIVES} patterns`);
  return heads.flatMap((head) => tails.map((tail) => head + tail));
}

class Translation {
  private groups = 0;

  translate(pattern: string): string {
    const groups: string[][] = [[]];
    for (const segment of pattern.split("/")) {
      if (segment.length > 1 && /^\*+$/.test(segment)) groups.push([]);
      else if (segment) groups.at(-1)?.push(this.name(segment));
    }
    const [first = [], ...later] = groups;
    let anchored = first.map((name) => `${name}/`).join("");
    const last = later.pop();
    if (!last) return anchored.replace(/\/$/, "");
    // The earliest match of the names between two `**` is as good as any later one.
    for (const group of later.filter((each) => each.length))
      anchored += this.atomic(`(?:[^/]+/)*?${group.map((name) => `${name}/`).join("")}`);
    return anchored + (last.length ? `(?:[^/]+/)*${last.join("/")}` : ".+");
  }

  private name(segment: string): string {
    const pieces = [""];
    for (const token of tokens(segment)) {
      if (token === undefined) pieces.push("");
      else pieces.push((pieces.pop() ?? "") + token);
    }
    const [first = "", ...others] = pieces;
    const last = others.pop();
    if (last === undefined) return first;
    const middle = others.filter((piece) => piece).map((piece) => this.atomic(`[^/]*?${piece}`));
    return `${first}${middle.join("")}[^/]*${last}`;
  }

  private atomic(expression: string): string {
    this.groups += 1;
    return `(?=(?<g${this.groups}>${expression}))\\k<g${this.groups}>`;
  }
}

/** Parts of a regular expression; undefined stands for a star. */
function* tokens(segment: string): Iterable<string | undefined> {
  for (let at = 0; at < segment.length;) {
    const char = segment.charAt(at);
    at += 1;
    if (char === "*") yield undefined;
    else if (char === "?") yield "[^/]";
    else if (char === "[") {
      const end = classEnd(segment, at);
      yield characterClass(segment.slice(at, end));
      at = end + 1;
    } else if (char === "\\" && at < segment.length) {
      yield escape(segment.charAt(at));
      at += 1;
    } else yield escape(char);
  }
}

/** A bracket right at the start of a class is a member. */
function classEnd(segment: string, start: number): number {
  const at = start + ("!^".includes(segment.charAt(start)) ? 1 : 0);
  const end = segment.indexOf("]", at + 1);
  if (end < 0) throw new Error("a bracket is not closed");
  return end;
}

function characterClass(inside: string): string {
  const negated = "!^".includes(inside.charAt(0));
  const members = negated ? inside.slice(1) : inside;
  let parts = "";
  for (let at = 0; at < members.length; at += 1) {
    const low = members.charAt(at);
    let high = low;
    if (members[at + 1] === "-" && at + 2 < members.length) {
      high = members.charAt(at + 2);
      at += 2;
    }
    if (low > high) throw new Error(`the range ${low}-${high} is empty`);
    parts += `${escape(low)}-${escape(high)}`;
  }
  return negated ? `[^/${parts}]` : `(?!/)[${parts}]`;
}

function outerBraces(pattern: string): [number, number[], number] | undefined {
  let [start, depth] = [-1, 0];
  const commas: number[] = [];
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at];
    if (char === "\\") at += 1;
    else if (char === "{") {
      depth += 1;
      if (depth === 1) start = at;
    } else if (char === "}" && depth) {
      depth -= 1;
      if (depth === 0) return [start, commas, at];
    } else if (char === "," && depth === 1) commas.push(at);
  }
  if (depth) throw new Error("a brace is not closed");
  return undefined;
}

function escape(char: string): string {
  return /[\w/]/.test(char) ? char : char.replace(/[\\^$.*+?()[\]{}|-]/g, "\\$&");
}

function invalid(message: string): Failure {
  return new Failure("search.invalid_pattern", message);
}
