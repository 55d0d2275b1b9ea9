/**
 * A consent request as data: the kind of action, its arguments, the paths it affects, and the
 * requester. Questions show it, and rules can decide on it.
 */
import { isProtected } from "./protected_paths";
import { shortened, visible, visibleLines, type TextRange } from "./visible_text";

export interface Requester {
  /** Display name; not unique. */
  name: string;
  /** The hub that forwarded the request; empty for a script of this window. */
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

/** A part of a command text that needs approval, and why. */
export interface AskingPart extends TextRange {
  text: string;
  reason: string;
}

export interface RequestedCommand {
  asking: readonly AskingPart[];
  /** The rules that the answer "always" adds, and the file that gets them. */
  proposals: readonly string[];
  rulesFile: string;
}

export interface ConsentRequest {
  /** The kind of action, or the type of a bridge request. */
  kind: string;
  requester: Requester;
  /** Where a command or cell runs; empty for anything else. */
  cwd: string;
  paths: readonly RequestPath[];
  /** All arguments. The first is the most important argument. */
  parts: readonly RequestPart[];
  /** What checkpoints leave out, or why there are none. Only for actions that may change files. */
  limitNotes?: readonly string[];
  /** Only if rules were applied to a command text, which is then the first of `parts`. */
  command?: RequestedCommand;
}

/** Arguments that OpenHands sends with every action, and the values that have no effect. */
const WITHOUT_EFFECT: Readonly<Record<string, unknown>> = {
  confirmation_state: "confirmed",
  security_risk: -1,
};
const ORDINARY_NAME = /^[a-z][a-z0-9_]{0,39}$/;
/** Maximum parts in the list of parts that need approval, and characters of each part. */
const MAX_LISTED = 20;
const MAX_LISTED_CHARS = 200;
/** A line with more characters is wrapped, and its length is shown. */
const MAX_UNWRAPPED_CHARS = 72;
/** The main argument of an action comes first; others follow in the order sent. */
const MAIN_ARGUMENTS = [
  ...["command", "code", "request", "url", "what", "path", "pattern", "question"],
  ...["configuration", "expression", "commit_message", "paths"],
];

const KIND_TEXTS: Readonly<Record<string, string>> = {
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
  language: "look something up in your code",
  rename_symbol: "rename a symbol in all files that use it",
  apply_code_action: "change code by a quick fix or refactoring",
  format: "format a file",
  organize_imports: "organize the imports of a file",
  debug_configurations: "list the launch configurations",
  set_breakpoints: "list or change breakpoints",
  debug_start: "run a program in the debugger",
  debug_continue: "let the program in the debugger run",
  debug_step: "execute a line in the debugger",
  debug_pause: "pause the program in the debugger",
  debug_state: "look at the program in the debugger",
  debug_evaluate: "run code in the program in the debugger",
  debug_set_variable: "change a variable in the debugger",
  debug_stop: "end the program in the debugger",
  list_tests: "run a command that lists tests",
  run_tests: "run tests",
  test_results: "read the results of its tests",
  read_cells: "read the cells of a notebook",
  edit_cells: "change the cells of a notebook",
  run_cells: "run cells of a notebook",
  list_tasks: "list the tasks of the workspace",
  run_task: "run a task",
  stop_task: "end a running task",
  list_running: "list what runs in this window",
  read_terminal: "read one of your terminals",
  git_status: "read the git status",
  git_diff: "read a git diff",
  git_stage: "stage changes in git",
  git_unstage: "unstage changes in git",
  git_commit: "commit what is staged in git",
  open_editors: "see which editors are open",
  list_ports: "list the ports of programs",
  screenshot: "take a picture of the window",
  selection: "read what you have selected",
  open_file: "open a file in an editor",
  show_diff: "show you a diff",
  ask_user: "ask you something",
  vscode_command: "run a VS Code command",
  bridge: "ask VS Code for something",
  checkpoints: "list checkpoints",
  checkpoint: "show what an agent changed",
  restore: "undo what an agent changed",
  "vscode/executeCommand": "run a VS Code command",
  "vscode/applyEdit": "change files",
};

/** Every argument as text, without those that are empty, false or unset. */
export function partsOf(args: Readonly<Record<string, unknown>>): RequestPart[] {
  const names = Object.keys(args).filter((name) => {
    const value = args[name];
    return !isEmpty(value) && value !== false && WITHOUT_EFFECT[name] !== value;
  });
  const place = (name: string): number =>
    MAIN_ARGUMENTS.includes(name) ? MAIN_ARGUMENTS.indexOf(name) : MAIN_ARGUMENTS.length;
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
 * The whole request as plain text. A bar precedes each line of the agent's text, so that the agent
 * cannot imitate the lines written here.
 */
export function fullText(request: ConsentRequest): string {
  const { requester, kind, cwd, paths, parts } = request;
  const lines = [
    ...field("Asks", requester.name),
    ...(requester.hub ? field("Through", requester.hub) : []),
    ...field("Wants to", `${KIND_TEXTS[kind] ?? "do something"} (${kind})`),
    ...(cwd ? field("Runs in", cwd) : []),
    ...paths.flatMap(({ real, isWritten }) => field(isWritten ? "Changes" : "Uses", real)),
    ...(request.limitNotes ?? []).flatMap((text) => field("Restore", text)),
    ...warnings(request).flatMap((text) => field("Warning", text)),
  ];
  // Marks under the whole text would only double its length.
  const length = parts[0]?.text.length ?? 0;
  const asking = (request.command?.asking ?? []).filter(
    ({ start, end }) => start > 0 || end < length,
  );
  parts.forEach((part, n) => lines.push(...argumentLines(part, n === 0, n === 0 ? asking : [])));
  if (request.command) lines.push(...explanationLines(request.command, requester.name));
  return `${lines.join("\n")}\n`;
}

export function warnings(request: ConsentRequest): string[] {
  const found: string[] = [];
  if (protectedPaths(request).length)
    found.push("Programs such as VS Code, git and shells run or trust what is in this file.");
  const whole = request.parts.map(({ text }) => text).join("\n");
  if (visible(whole.replace(/[\n\t]/g, "")) !== whole.replace(/[\n\t]/g, ""))
    found.push("Hidden characters and long gaps are spelled out below.");
  return found;
}

/** Why a command needs approval, part by part, and which rules would allow it. */
function explanationLines(
  { asking, proposals, rulesFile }: RequestedCommand,
  agent: string,
): string[] {
  const lines = asking.length ? ["", "Needs approval because of these parts:"] : [];
  for (const { text, reason } of asking.slice(0, MAX_LISTED)) {
    lines.push(`│ ${shortened(text, MAX_LISTED_CHARS)}`);
    lines.push(...visibleLines(visible(reason), "    ", "    "));
  }
  const left = asking.length - MAX_LISTED;
  if (left > 0) lines.push(`and ${left} more.`);
  if (!proposals.length) return lines;
  const file = `${visible(rulesFile)}, for the agent ${shortened(agent)}:`;
  return [
    ...lines,
    "",
    ...visibleLines(`"Always" adds these rules to ${file}`, "", ""),
    ...proposals.map((each) => `    ${visible(each)}`),
  ];
}

/** The main argument and multi-line texts as blocks; other arguments on one line each. */
function argumentLines(
  { name, text }: RequestPart,
  isFirst: boolean,
  marked: readonly TextRange[],
): string[] {
  const lines = visibleLines(text, undefined, undefined, marked);
  // The agent chose this name. It could imitate a line written here.
  if (!ORDINARY_NAME.test(name))
    return ["", "argument named:", ...visibleLines(name), "with the value:", ...lines];
  if (isFirst || lines.length > 1) return ["", `${visible(name)}${lengthText(text)}:`, ...lines];
  return ["", `${visible(name)} ${lines[0] ?? "│"}`];
}

function field(name: string, text: string): string[] {
  const [first = "", ...more] = visibleLines(visible(text), "", "");
  return [`${`${name}:`.padEnd(10)}${first}`, ...more.map((line) => `${" ".repeat(10)}${line}`)];
}

function lengthText(text: string): string {
  const lines = text.split("\n").length;
  const characters = `${Array.from(text).length.toLocaleString("en")} characters`;
  if (lines > 1) return ` (${lines.toLocaleString("en")} lines, ${characters})`;
  return text.length > MAX_UNWRAPPED_CHARS ? ` (1 line, ${characters})` : "";
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}
