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
const MAX_NESTING = 32;

/** Returns a function that checks whether a path, relative to the search directory, matches. */
export function compileGlob(pattern: string): (path: string) => boolean {
  if (pattern.startsWith("/") || pattern.split("/").includes(".."))
    throw invalid(
      `'${pattern}' leads out of the directory searched; give the directory as \`path\``,
    );
  try {
    const each = expandBraces(pattern.replace(/^\.\//, "")).map(
      (one) => new RegExp(`^(?:${new Translation().translate(one)})$`, "su"),
    );
    return (path) => each.some((expression) => expression.test(path));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw invalid(`'${pattern}' is not a glob pattern: ${why}`);
  }
}

export function expandBraces(pattern: string, depth = 0): string[] {
  if (depth > MAX_NESTING) throw new Error(`its braces are nested more than ${MAX_NESTING} deep`);
  let expanded = [""];
  let at = 0;
  for (let found = outerBraces(pattern, at); found; found = outerBraces(pattern, at)) {
    const [start, commas, end] = found;
    const bounds = [start, ...commas, end];
    const options = bounds
      .slice(0, -1)
      .map((from, index) => pattern.slice(from + 1, bounds[index + 1]))
      .flatMap((option) => expandBraces(option, depth + 1));
    if (expanded.length * options.length > MAX_ALTERNATIVES)
      throw new Error(`its braces stand for more than ${MAX_ALTERNATIVES} patterns`);
    const before = pattern.slice(at, start);
    expanded = expanded.flatMap((head) => options.map((option) => head + before + option));
    at = end + 1;
  }
  return expanded.map((head) => head + pattern.slice(at));
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
    // The earliest match of the names between two `**` is as good as any later one, so the group
    // can be atomic.
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

/** The segment as parts of a regular expression; undefined stands for a star. */
function* tokens(segment: string): Iterable<string | undefined> {
  for (let at = 0; at < segment.length;) {
    const char = characterAt(segment, at);
    at += char.length;
    if (char === "*") yield undefined;
    else if (char === "?") yield "[^/]";
    else if (char === "[") {
      const end = classEnd(segment, at);
      yield characterClass(segment.slice(at, end));
      at = end + 1;
    } else if (char === "\\" && at < segment.length) {
      const escaped = characterAt(segment, at);
      yield escape(escaped);
      at += escaped.length;
    } else yield escape(char);
  }
}

/** The position of the `]` that ends a class. A `]` directly at the start is a member. */
function classEnd(segment: string, start: number): number {
  const at = start + ("!^".includes(segment.charAt(start)) ? 1 : 0);
  const end = segment.indexOf("]", at + 1);
  if (end < 0) throw new Error("a bracket is not closed");
  return end;
}

function characterClass(inside: string): string {
  const negated = "!^".includes(inside.charAt(0));
  const members = Array.from(negated ? inside.slice(1) : inside);
  let parts = "";
  for (let at = 0; at < members.length; at += 1) {
    const low = members[at] ?? "";
    let high = low;
    if (members[at + 1] === "-" && at + 2 < members.length) {
      high = members[at + 2] ?? "";
      at += 2;
    }
    if ((low.codePointAt(0) ?? 0) > (high.codePointAt(0) ?? 0))
      throw new Error(`the range ${low}-${high} is empty`);
    parts += `${escapeMember(low)}-${escapeMember(high)}`;
  }
  return negated ? `[^/${parts}]` : `(?!/)[${parts}]`;
}

/** The positions of the next outer braces from `from` on: opening, commas, closing. */
function outerBraces(pattern: string, from: number): [number, number[], number] | undefined {
  let [start, depth] = [-1, 0];
  const commas: number[] = [];
  for (let at = from; at < pattern.length; at += 1) {
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

/** The character at a position; a surrogate pair is one character. */
function characterAt(text: string, at: number): string {
  return String.fromCodePoint(text.codePointAt(at) ?? 0);
}

function escape(char: string): string {
  return char.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** Escapes a member of a class. With the `u` flag, a dash may be escaped only in a class. */
function escapeMember(char: string): string {
  return char === "-" ? "\\-" : escape(char);
}

function invalid(message: string): Failure {
  return new Failure("search.invalid_pattern", message);
}
