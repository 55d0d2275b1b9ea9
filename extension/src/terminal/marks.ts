/**
 * The protocol with bash: the command lines that we send, and how we recognize ends of commands.
 * This module does no I/O.
 *
 * The same protocol as the sandbox's; src/bascule/sandbox/shell/marks.py explains it in full. Bash
 * reads commands from a private channel on its fd 0, while the programs it runs have the terminal.
 * Each command is one line on that channel: it restores `$?`, evaluates the text with the terminal
 * as stdin, and reports the end with the status and the shell's state. All output of the command is
 * in the terminal by then, and is read before the end is accepted.
 *
 * A shell is calm if only its commands print. A calm shell needs no marks on the terminal. If
 * something else may print between two commands (a job's notice, a prompt hook, a trace), bash
 * prints marks around the output: `ESC ] 7771 ; NONCE ; S BEL`, with a new nonce for each command.
 * If an interrupt makes bash drop the rest of a line, bash prints its prompt, which is visible only
 * while a line runs. Then another line asks for the end.
 *
 * The sandbox uses one socket as the channel. Here the channel is two FIFOs, because node-pty
 * passes no file descriptors to its child. One FIFO is bash's stdin; bash opens the other, `ends`,
 * to report. Bash opens `ends` for reading and writing: otherwise bash would block forever if the
 * reader had died.
 */
import { randomBytes } from "node:crypto";
import { Failure } from "../common/failure";
import { halfCharacter } from "../common/text";

export const MAX_COMMAND_BYTES = 16 << 20;

/** PS1 while a line runs. */
export const PROMPT = Buffer.from("\x1b]7771;P\x07");

const MARK_START = Buffer.from("\x1b]7771;");
const ESC = 0x1b;
const NEWLINE = 0x0a;
const MAX_MARK_BYTES = 32;
const NONCE = "[0-9a-f]{16}";
const ANY_MARK = new RegExp(`\\x1b\\]7771;(?:P|${NONCE};[SEF])\\x07`, "g");
const TERMINAL_MODES = "-opost -echo -echonl -ixon -ixoff noflsh";
const TYPE_NAME = /^[a-z]*\n$/;
const SHOW_PROMPT = "\\builtin printf -v PS1 '\\e]7771;P\\a'";
/** PS1 between two lines. Not empty: scripts take a shell without PS1 for non-interactive. */
export const HIDDEN_PROMPT = "\\[\\]";
const HIDE_PROMPT = "\\builtin printf -v PS1 '\\\\[\\\\]'";

/** The report of bash at the end of a command. */
export interface CommandEnd {
  status: number;
  backgroundPid: number;
  /** Bash's `$-`. */
  options: string;
  path: string;
  cwd: string;
  /** Nothing but the next command will print: no job, no trace, no hook at the prompt. */
  isCalm: boolean;
  /** A mark on the terminal follows. */
  isMarked: boolean;
  /** This end answers a question: bash dropped the command's own line and printed a prompt. */
  wasAsked: boolean;
}

/** A mark in the terminal output: where the output before it ends, and where the mark ends. */
export interface FoundMark {
  before: number;
  after: number;
  isStart: boolean;
  /** The mark belongs to the answer to a question (`askLine`). */
  wasAsked: boolean;
}

/** How agents write a control key: `C-c`. */
export const KEY_NAME = /^C-[A-Za-z\\\]^_@[]$/;

export function newNonce(): string {
  return randomBytes(8).toString("hex");
}

/**
 * Prepares a new bash: terminal modes, no history, no visible prompt, no auto-logout, no aliases
 * (rules for commands compare names, and an alias would change what a name means). Bash must be
 * started with `HIDDEN_PROMPT` as PS1, or it would print its default prompt first.
 */
export function initLine(nonce: string, ends: string): string {
  return (
    "{ \\builtin : <&255; } 2>/dev/null || \\exec 255<>/dev/tty; " +
    `stty ${TERMINAL_MODES} <&255; ` +
    "set +o history +o histexpand; shopt -u expand_aliases; unset -v HISTFILE TMOUT MAILCHECK PROMPT_COMMAND; " +
    `${HIDE_PROMPT}; PS2= ; export -n PS1\n${askLine(nonce, ends)}`
  );
}

/** Restores the terminal modes, in case a program changed them. */
export function restoreModesLine(): string {
  return `{ stty ${TERMINAL_MODES} <&255; } >/dev/null 2>&1\n`;
}

/** The line that runs `text`, in `cwd` if bash can enter it, and between marks if `isMarked`. */
export function commandLine(
  text: string,
  nonce: string,
  state: {
    ends: string;
    status: number;
    options: string;
    isMarked: boolean;
    cwd?: string | null | undefined;
  },
): string {
  const nul = text.indexOf("\0");
  if (nul >= 0)
    throw invalid(
      `the command contains a NUL byte at position ${nul}, which no shell can be given; write it to a file instead`,
    );
  if (state.cwd?.includes("\0"))
    throw invalid(`the command's cwd contains a NUL byte: ${JSON.stringify(state.cwd)}`);
  let start = `${SHOW_PROMPT};`;
  if (state.isMarked) start += `${printMark(nonce, "S")};`;
  start += restoreStatus(state.status);
  let first = text;
  if (state.options.includes("x")) {
    // With `set -x`, print the start mark inside `eval`, so that the trace of `eval` precedes it.
    first = `{ ${start} } >/dev/null 2>&1\n${text}`;
    start = "";
  }
  const changeDirectory = state.cwd ? `\\builtin cd -- ${quoted(state.cwd)} && ` : "";
  const line =
    `${start}${changeDirectory}\\builtin eval -- ${quoted(first)} <&255; ` +
    `{ ${reportEnd(nonce, "E", state.isMarked)}; } ${redirectTo(state.ends)}\n`;
  const half = halfCharacter(line);
  if (half !== undefined)
    throw invalid(
      `the command contains a character that has no UTF-8 form: ${JSON.stringify(half)}`,
    );
  const size = Buffer.byteLength(line);
  if (size > MAX_COMMAND_BYTES)
    throw invalid(
      `the command is ${size.toLocaleString("en")} bytes long and the limit is ` +
        `${MAX_COMMAND_BYTES.toLocaleString("en")}; write it to a file and run that`,
    );
  return line;
}

/** A line that only reports an end. Its answer shows that bash reads and runs lines again. */
export function askLine(nonce: string, ends: string): string {
  return `\\builtin eval ${quoted(reportEnd(nonce, "F", true))} ${redirectTo(ends)}\n`;
}

/** What bash reports about itself between two commands. */
export interface ShellFacts {
  /** Bash's `$PWD`. */
  cwd: string;
  /** What each name would run: `file`, `builtin`, `function`, …; empty if nothing. */
  types: ReadonlyMap<string, string>;
  /** Bash's `$-`. */
  flags: string;
  /** Bash's `$BASHOPTS`. */
  options: readonly string[];
  hasCdPath: boolean;
}

/** A line that asks bash for its state and for the meaning of `names`. Changes nothing. */
export function inspectLine(names: readonly string[], nonce: string, ends: string): string {
  // `||`: with `set -e`, a name that bash does not know would end bash.
  const types = names.map(
    (name) =>
      `\\builtin printf '\\037'; \\builtin type -t -- ${quoted(name)} || \\builtin printf '\\n'`,
  );
  const text =
    `\\builtin printf '\\e${nonce}Q%s\\037%s\\037%s\\037%s' ` +
    '"$-" "${BASHOPTS-}" "${CDPATH:+set}" "${PWD-}"; ' +
    [...types, `\\builtin printf '\\037${nonce}'`].join("; ");
  return `\\builtin eval ${quoted(text)} ${redirectTo(ends)}\n`;
}

/** The answer to `inspectLine`, if it has arrived completely and can be understood. */
export function findFacts(
  data: Buffer,
  names: readonly string[],
  nonce: string,
): ShellFacts | "unclear" | undefined {
  const opening = `\x1b${nonce}Q`;
  const at = data.indexOf(opening);
  const stop = at < 0 ? -1 : data.indexOf(`\x1f${nonce}`, at);
  if (stop < 0) return undefined;
  const fields = data.toString("utf8", at + opening.length, stop).split("\x1f");
  const [flags = "", options = "", cdPath, cwd = "", ...types] = fields;
  // A trace (`set -x`) or a hook has printed too, or the directory's name contains a separator.
  if (types.length !== names.length || !types.every((type) => TYPE_NAME.test(type)))
    return "unclear";
  return {
    cwd,
    types: new Map(names.map((name, n) => [name, types[n]?.trim() ?? ""])),
    flags,
    options: options.split(":"),
    hasCdPath: cdPath !== "",
  };
}

/** Removes functions, enables builtins and reopens fd 255, so that bash can report ends again. */
export function repairLine(nonce: string, ends: string): string {
  return (
    "\\unset -f builtin printf eval exec enable\n\\enable builtin printf eval exec\n" +
    terminalLine() +
    askLine(nonce, ends)
  );
}

/** Reopens bash's own descriptor of the terminal. */
export function terminalLine(): string {
  return "\\exec 255<>/dev/tty\n";
}

/** Whether the output is only bash's error that it has no terminal for a command. */
export function isNoTerminalError(output: string): boolean {
  return /^[^\n]+: 255: Bad file descriptor\n$/.test(output);
}

/** The first mark of `nonce` on the terminal. */
export function findMark(data: Buffer, nonce: string): FoundMark | undefined {
  const opening = `\x1b]7771;${nonce};`;
  const before = data.indexOf(opening);
  const after = before + opening.length + 2;
  if (before < 0 || after > data.length) return undefined;
  const letter = String.fromCharCode(data[after - 2] ?? 0);
  return { before, after, isStart: letter === "S", wasAsked: letter === "F" };
}

/** The end of the command with `nonce`, if it has arrived completely. */
export function findEnd(data: Buffer, nonce: string): CommandEnd | undefined {
  const opening = `\x1b${nonce}`; // a trace of the line shows `\e` there, not ESC
  const at = data.indexOf(opening);
  if (at < 0) return undefined;
  const body = at + opening.length;
  const stop = data.indexOf(`\x1f${nonce}`, body);
  return stop < 0 ? undefined : parseEnd(data.toString("utf8", body, stop));
}

/**
 * Number of bytes at the end of `data` that may be the beginning of a mark of `nonce`, or a prompt
 * (the text on the line of the prompt's mark).
 */
export function heldBackBytes(data: Buffer, nonce: string): number {
  let at = data.indexOf(ESC, Math.max(0, data.length - MAX_MARK_BYTES));
  if (at < 0) return 0;
  const opening = Buffer.from(`\x1b]7771;${nonce};`);
  while (at >= 0) {
    const last = data.subarray(at);
    if (last.equals(PROMPT)) return data.length - lineStart(data, at);
    if (startsWith(opening, last.subarray(0, opening.length)) || startsWith(PROMPT, last))
      return last.length;
    at = data.indexOf(ESC, at + 1);
  }
  return 0;
}

/** `data` without the prompt at its end: the last line, if it ends with the prompt's mark. */
export function withoutPrompt(data: Buffer): Buffer {
  return endsWithPrompt(data)
    ? data.subarray(0, lineStart(data, data.length - PROMPT.length))
    : data;
}

export function endsWithPrompt(data: Buffer): boolean {
  return data.length >= PROMPT.length && data.subarray(-PROMPT.length).equals(PROMPT);
}

/** `data` without complete marks of any command, and without the text on a prompt's line. */
export function withoutMarks(data: Buffer): Buffer {
  if (!data.includes(MARK_START)) return data;
  const pieces = data.toString("latin1").split(PROMPT.toString("latin1"));
  const last = pieces.pop() ?? "";
  const kept = pieces.map((piece) => piece.slice(0, piece.lastIndexOf("\n") + 1));
  return Buffer.from((kept.join("") + last).replace(ANY_MARK, ""), "latin1");
}

/** `data` without prompts. */
export function withoutPrompts(data: Buffer): Buffer {
  if (!data.includes(PROMPT)) return data;
  return Buffer.from(data.toString("latin1").replaceAll(PROMPT.toString("latin1"), ""), "latin1");
}

/** Length of an incomplete mark, of any command, at the end of `data`. */
export function unfinishedMarkBytes(data: Buffer): number {
  const at = data.lastIndexOf(ESC);
  if (at < 0 || data.length - at > MAX_MARK_BYTES) return 0;
  const last = data.subarray(at);
  if (last.includes(0x07)) return 0;
  return startsWith(last, MARK_START) || startsWith(MARK_START, last) ? last.length : 0;
}

function invalid(message: string): Failure {
  return new Failure("shell.command_invalid", message);
}

/** Shell code that sets `$?` to `status`. */
function restoreStatus(status: number): string {
  if (status === 0) return "";
  if (status === 1) return " ! \\builtin :;";
  return (
    ` __bascule() { \\builtin unset -f __bascule; \\builtin return ${status}; };` +
    " __bascule && \\builtin :;"
  );
}

function printMark(nonce: string, letter: string): string {
  return `\\builtin printf '\\e]7771;${nonce};${letter}\\a' >&255`;
}

function reportEnd(nonce: string, letter: string, isMarked: boolean): string {
  // `${!:-}`: the PID of the last background job, or nothing, also under `set -u`.
  const noisy = isMarked ? "" : "[[ ${!:-}${PROMPT_COMMAND[*]:-}${PS0:-} ]] && ";
  return (
    `\\builtin printf '\\e${nonce}${letter};%s;%s;%s;%s\\037%s\\037%s\\037${nonce}' ` +
    '"$?" "${!:-}" "$-" "${PROMPT_COMMAND[*]:+hook}${PS0:+hook}" "${PATH-}" "${PWD-}"' +
    ` && ${HIDE_PROMPT}; ${noisy}${printMark(nonce, letter)}`
  );
}

/** Redirects the output of a line to `ends`. The reader drops everything that is not an end. */
function redirectTo(ends: string): string {
  return `1<>${quoted(ends)} 2>&1`;
}

/** `text` as a quoted bash word on one line. */
export function quoted(text: string): string {
  const escaped = text.replace(/[\\'\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`));
  return `$'${escaped}'`;
}

function parseEnd(body: string): CommandEnd {
  const [state = "", path = "", ...cwd] = body.split("\x1f");
  const [letter, status, background, options = "", hook] = state.split(";");
  const isNoisy = Boolean(background ?? "") || Boolean(hook ?? "");
  return {
    status: Number(status),
    backgroundPid: background ? Number(background) : -1,
    options,
    path,
    cwd: cwd.join("\x1f"),
    isCalm: !isNoisy && !/[vx]/.test(options),
    isMarked: isNoisy || letter === "F",
    wasAsked: letter === "F",
  };
}

function lineStart(data: Buffer, at: number): number {
  return at === 0 ? 0 : data.lastIndexOf(NEWLINE, at - 1) + 1;
}

function startsWith(data: Buffer, start: Buffer): boolean {
  return data.length >= start.length && data.subarray(0, start.length).equals(start);
}
