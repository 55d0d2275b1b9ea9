/**
 * A consent request as data: the kind of action, all its texts, the paths it affects, and who asks.
 * Questions show it, and rules can decide on it.
 */
import { isProtected } from "./protected_paths";
import { shortened, visible, visibleLines } from "./visible_text";

export interface Requester {
  /** Display name; not unique. */
  name: string;
  /** The hub it came through; empty for a script of this window. */
  hub: string;
}

export interface RequestPath {
  given: string;
  /** Absolute, with links and `..` resolved. */
  real: string;
  /** Whether the request may change the file. */
  isWritten: boolean;
}

export interface RequestPart {
  name: string;
  /** Exactly as it was sent. */
  text: string;
}

export interface ConsentRequest {
  /** The kind of action, or the type of a bridge request. */
  kind: string;
  requester: Requester;
  /** Where a command or cell runs; empty for anything else. */
  cwd: string;
  paths: readonly RequestPath[];
  /** All its arguments. The first is the most important one. */
  parts: readonly RequestPart[];
}

/** Arguments that OpenHands sends with every action and that change nothing. */
const SILENT: Readonly<Record<string, unknown>> = {
  confirmation_state: "confirmed",
  security_risk: -1,
};
const ORDINARY_NAME = /^[a-z][a-z0-9_]{0,39}$/;
/** Characters of a line that is shown on several, and whose length is told. */
const LONG_LINE = 72;
/** The main argument of an action comes first; others follow in the order sent. */
const FIRST = ["command", "code", "request", "url", "path", "pattern", "question"];

const WORDS: Readonly<Record<string, string>> = {
  run: "run a command in a shell",
  run_ipython: "run Python code",
  read: "read a file",
  write: "write a file",
  edit: "change a file",
  mkdir: "make a directory",
  rmdir: "remove a directory",
  rm: "remove a file or directory",
  list: "list a directory",
  glob: "find files by name",
  grep: "search in files",
  interrupt: "interrupt a program",
  browse: "open a web page",
  browse_interactive: "click or type in a web page",
  diagnostics: "read the problems VS Code shows",
  symbols: "read the symbols of your code",
  selection: "read what you have selected",
  open_file: "open a file in an editor",
  show_diff: "show you a diff",
  ask_user: "ask you something",
  vscode_command: "run a VS Code command",
  bridge: "ask VS Code for something",
  "vscode/executeCommand": "run a VS Code command",
  "vscode/applyEdit": "change files",
};

/** Every argument as text, without those that are empty, false or unset. */
export function partsOf(args: Readonly<Record<string, unknown>>): RequestPart[] {
  const names = Object.keys(args).filter((name) => {
    const value = args[name];
    return !isEmpty(value) && value !== false && SILENT[name] !== value;
  });
  const place = (name: string): number =>
    FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length;
  names.sort((one, other) => place(one) - place(other));
  return names.map((name) => ({ name, text: textOf(args[name]) }));
}

/** Protected paths that the request would change. */
export function protectedPaths(request: ConsentRequest): string[] {
  return request.paths
    .filter(({ given, real, isWritten }) => isWritten && (isProtected(real) || isProtected(given)))
    .map(({ real }) => real);
}

/** One line for lists; `fullText` has everything. */
export function summaryOf({ kind, parts }: ConsentRequest): string {
  return `${kind} ${shortened(parts[0]?.text ?? "")}`.trim();
}

/**
 * The whole request as plain text. Each line of the agent's text has a bar before it, so that it
 * cannot pass for ours.
 */
export function fullText(request: ConsentRequest): string {
  const { requester, kind, cwd, paths, parts } = request;
  const lines = [
    ...field("Asks", requester.name),
    ...(requester.hub ? field("Through", requester.hub) : []),
    ...field("Wants to", `${WORDS[kind] ?? "do something"} (${kind})`),
    ...(cwd ? field("Runs in", cwd) : []),
    ...paths.flatMap(({ real, isWritten }) => field(isWritten ? "Changes" : "Uses", real)),
    ...warnings(request).flatMap((text) => field("Warning", text)),
  ];
  parts.forEach((part, n) => lines.push(...shown(part, n === 0)));
  return `${lines.join("\n")}\n`;
}

export function warnings(request: ConsentRequest): string[] {
  const found: string[] = [];
  if (protectedPaths(request).length)
    found.push("VS Code, git or a shell runs programs from this file automatically.");
  const whole = request.parts.map(({ text }) => text).join("\n");
  if (visible(whole.replace(/[\n\t]/g, "")) !== whole.replace(/[\n\t]/g, ""))
    found.push("Hidden characters and long gaps are spelled out below.");
  return found;
}

/** The main argument and multi-line texts as blocks; other arguments on one line each. */
function shown({ name, text }: RequestPart, isFirst: boolean): string[] {
  const lines = visibleLines(text);
  // The agent chose this name, and it could read like a line of ours.
  if (!ORDINARY_NAME.test(name))
    return ["", "argument named:", ...visibleLines(name), "with the value:", ...lines];
  if (isFirst || lines.length > 1) return ["", `${visible(name)}${size(text)}:`, ...lines];
  return ["", `${visible(name)} ${lines[0] ?? "│"}`];
}

function field(name: string, text: string): string[] {
  const [first = "", ...more] = visibleLines(visible(text), "", "");
  return [`${`${name}:`.padEnd(10)}${first}`, ...more.map((line) => `${" ".repeat(10)}${line}`)];
}

function size(text: string): string {
  const lines = text.split("\n").length;
  const characters = `${Array.from(text).length.toLocaleString("en")} characters`;
  if (lines > 1) return ` (${lines.toLocaleString("en")} lines, ${characters})`;
  return text.length > LONG_LINE ? ` (1 line, ${characters})` : "";
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}
