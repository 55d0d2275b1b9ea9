/**
 * What an agent or a script wants to do, as data: what kind of thing, every text it consists of, the
 * paths it leads to, and who asks. Questions show it, and rules can judge it.
 */
import { isProtected } from "./protected_paths";
import { shortened, visible, visibleLines } from "./visible_text";

export interface Requester {
  /** For people. Names are not unique. */
  name: string;
  /** The hub by which it comes; empty for a script of this window. */
  hub: string;
}

export interface RequestPath {
  given: string;
  /** Absolute, with links and `..` resolved. */
  real: string;
  /** Whether the request may change what is there. */
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
  /** All that was sent with it: the first is what it is about. */
  parts: readonly RequestPart[];
}

/** Said by OpenHands in every action; they change nothing of what is done. */
const SILENT: Readonly<Record<string, unknown>> = {
  confirmation_state: "confirmed",
  security_risk: -1,
};
/** The argument an action is about; others follow in the order they were sent. */
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
  browse_interactive: "use a web page",
  diagnostics: "read the problems VS Code shows",
  symbols: "read the symbols of your code",
  selection: "read what you have selected",
  open_file: "open a file in an editor",
  show_diff: "show you a comparison",
  ask_user: "ask you something",
  vscode_command: "run a VS Code command",
  bridge: "ask VS Code for something",
  "vscode/executeCommand": "run a VS Code command",
  "vscode/applyEdit": "change files",
};

/** Every argument that says something, as text. What is empty, off or not set is left out. */
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

/** Paths that VS Code, git or a shell run things from, and that this would change. */
export function protectedPaths(request: ConsentRequest): string[] {
  return request.paths
    .filter(({ given, real, isWritten }) => isWritten && (isProtected(real) || isProtected(given)))
    .map(({ real }) => real);
}

/** One line for lists; the whole is in `fullText`. */
export function summaryOf({ kind, parts }: ConsentRequest): string {
  return `${kind} ${shortened(parts[0]?.text ?? "")}`.trim();
}

/** All of it as plain text. No line of the agent's can be taken for one of ours: each has a bar before it. */
export function fullText(request: ConsentRequest): string {
  const { requester, kind, cwd, paths, parts } = request;
  const lines = [
    ...field("Asks", requester.name),
    ...(requester.hub ? field("Through", requester.hub) : []),
    ...field("Wants to", `${WORDS[kind] ?? "do something"} (${kind})`),
    ...(cwd ? field("Runs in", cwd) : []),
    ...paths.flatMap(({ real, isWritten }) => field(isWritten ? "Changes" : "Uses", real)),
    ...warnings(request).flatMap((text) => field("Careful", text)),
  ];
  parts.forEach((part, n) => lines.push(...shown(part, n === 0)));
  return `${lines.join("\n")}\n`;
}

export function warnings(request: ConsentRequest): string[] {
  const found: string[] = [];
  if (protectedPaths(request).length)
    found.push("VS Code, git or a shell runs things from this file by itself.");
  const whole = request.parts.map(({ text }) => text).join("\n");
  if (visible(whole.replace(/[\n\t]/g, "")) !== whole.replace(/[\n\t]/g, ""))
    found.push("Characters and long gaps that a screen would hide are spelt out below.");
  return found;
}

/** What it is about, and longer texts, as a block; other options on a line each. */
function shown({ name, text }: RequestPart, isFirst: boolean): string[] {
  const lines = visibleLines(text);
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
  return lines > 1 ? ` (${lines.toLocaleString("en")} lines, ${characters})` : "";
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}
