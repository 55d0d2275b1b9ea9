/**
 * What we say to bash, and how we know its answer: rules only, no I/O.
 *
 * The same protocol as the sandbox's (src/bascule/sandbox/shell/marks.py has the whole reasoning). Bash
 * reads commands from a channel of its own, a FIFO on its descriptor 0, while what it runs has the
 * terminal. For each command two lines are written: one prints the start mark, evaluates the text
 * with the terminal as input and prints the end mark; the other prints the end mark once more, for
 * when an interrupt made bash drop the rest of the first.
 *
 * A mark is `ESC ] 7771 ; NONCE ; … BEL`, its nonce made for one command and good once. Unlike the
 * sandbox's socket a FIFO would hand back to bash what is written to it, so what is not for the
 * user goes to /dev/null.
 */
import { randomBytes } from "node:crypto";
import { Failure } from "../common/failure";

export const MAX_COMMAND = 16 << 20;

/** What PS1 is set to: not empty, since scripts ask it whether the shell is interactive. */
export const PROMPT = Buffer.from("\x1b]7771;P\x07");

const OPEN = Buffer.from("\x1b]7771;");
const ESC = 0x1b;
const NEWLINE = 0x0a;
const LONGEST_MARK = 64 << 10;
const N = "[0-9a-f]{16}";

const ANY_MARK = new RegExp(`\\x1b\\]7771;(?:P|${N};S|${N};[EF];[^]*?\\x1f${N})\\x07`, "g");
const MODES = "-opost -echo -echonl -ixon -ixoff noflsh";

export interface End {
  status: number;
  backgroundPid: number;
  /** Bash's `$-`. */
  options: string;
  path: string;
  cwd: string;
}

/** A mark in a piece of output: where it begins and stops, and what it tells. */
export interface Found {
  before: number;
  after: number;
  /** Missing in a start mark. */
  end?: End;
  /** The end came from the second line: the first was dropped, and a prompt was printed. */
  atPrompt: boolean;
}

/** How agents write a control key: `C-c`. */
export const KEY_NAME = /^C-[A-Za-z\\\]^_@[]$/;

export function newNonce(): string {
  return randomBytes(8).toString("hex");
}

/** Makes a fresh bash ours: a quiet terminal, no history, no prompt to see, no log-out for idleness. */
export function initLine(nonce: string): string {
  return (
    "{ \\builtin : <&255; } 2>/dev/null || \\exec 255<>/dev/tty; " +
    `stty ${MODES} <&255; ` +
    "set +o history +o histexpand; unset -v HISTFILE TMOUT MAILCHECK PROMPT_COMMAND; " +
    `PS1=$'\\e]7771;P\\a' PS2=\n${syncLine(nonce)}`
  );
}

/** Gives the terminal its modes back, should a program have left others. */
export function settleLine(): string {
  return `{ stty ${MODES} <&255; } >/dev/null 2>&1\n`;
}

/** The two lines that run `text`. */
export function commandLines(
  text: string,
  nonce: string,
  state: { status: number; options: string; cwd?: string | null | undefined },
): string {
  const nul = text.indexOf("\0");
  if (nul >= 0)
    throw new Failure(
      "shell.command_invalid",
      `the command holds a NUL byte at position ${nul}, which no shell can be given; write it to a file instead`,
    );
  let begin = `\\builtin printf '\\e]7771;${nonce};S\\a' >&255;${restore(state.status)}`;
  let first = text;
  if (state.options.includes("x")) {
    // The trace of `eval` itself comes before the start mark when that is printed inside.
    first = `{ ${begin} } >/dev/null 2>&1\n${text}`;
    begin = "";
  } else {
    begin = `{ ${begin} } >/dev/null 2>&1; `;
  }
  const go = state.cwd ? `\\builtin cd -- ${quoted(state.cwd)} && ` : "";
  const line =
    `${begin}${go}\\builtin eval ${quoted(first)} <&255; ` +
    `{ ${report(nonce, "E")}; } >/dev/null 2>&1\n${report(nonce, "F")} 2>/dev/null\n`;
  const size = Buffer.byteLength(line);
  if (size > MAX_COMMAND)
    throw new Failure(
      "shell.command_invalid",
      `the command is ${size.toLocaleString("en")} bytes long and the limit is ` +
        `${MAX_COMMAND.toLocaleString("en")}; write it to a file and run that`,
    );
  return line;
}

/** A line whose end mark shows that bash reads and runs lines again. */
export function syncLine(nonce: string): string {
  return `${report(nonce, "F")} 2>/dev/null\n`;
}

/** Undoes what can keep bash from marking ends: functions, disabled builtins, a lost 255. */
export function repairLine(nonce: string): string {
  return (
    "\\unset -f builtin printf eval exec enable\n\\enable builtin printf eval exec\n" +
    `\\exec 255<>/dev/tty\n${syncLine(nonce)}`
  );
}

/** The first complete mark of `nonce` in `data`. */
export function findMark(data: Buffer, nonce: string): Found | undefined {
  const opening = `\x1b]7771;${nonce};`;
  const before = data.indexOf(opening);
  if (before < 0) return undefined;
  const body = before + opening.length;
  if (data[body] === 0x53 && data[body + 1] === 0x07)
    return { before, after: body + 2, atPrompt: false };
  const close = `\x1f${nonce}\x07`;
  const stop = data.indexOf(close, body);
  const letter = String.fromCharCode(data[body] ?? 0);
  if (stop < 0 || !"EF".includes(letter)) return undefined;
  const end = parse(data.toString("utf8", body + 2, stop));
  return { before, after: stop + close.length, end, atPrompt: letter === "F" };
}

/**
 * How many bytes at the end of `data` may be the beginning of a mark of `nonce`, or a prompt (what
 * stands on the line of its mark) that bash printed before one.
 */
export function heldBack(data: Buffer, nonce: string): number {
  const opening = Buffer.from(`\x1b]7771;${nonce};`);
  const whole = data.indexOf(opening);
  if (whole >= 0) return data.length - whole;
  let at = data.indexOf(ESC, Math.max(0, data.length - opening.length));
  while (at >= 0) {
    const last = data.subarray(at);
    if (last.equals(PROMPT)) return data.length - lineStart(data, at);
    if (startsWith(opening, last) || startsWith(PROMPT, last)) return last.length;
    at = data.indexOf(ESC, at + 1);
  }
  return 0;
}

/** `data` less the prompt at its end: what stands on the line of the prompt's mark. */
export function withoutPrompt(data: Buffer): Buffer {
  const at = data.length - PROMPT.length;
  return at >= 0 && data.subarray(at).equals(PROMPT) ? data.subarray(0, lineStart(data, at)) : data;
}

/** `data` less every prompt, with what stands before it on its line, and every mark. */
export function withoutPrompts(data: Buffer): Buffer {
  if (!data.includes(OPEN)) return data;
  const pieces = data.toString("latin1").split(PROMPT.toString("latin1"));
  const last = pieces.pop() ?? "";
  const kept = pieces.map((piece) => {
    const text = piece.replace(ANY_MARK, "");
    return text.slice(0, text.lastIndexOf("\n") + 1);
  });
  return Buffer.from(kept.join("") + last.replace(ANY_MARK, ""), "latin1");
}

/** Length of the beginning of a mark, of any command, that `data` ends with. */
export function unfinishedMark(data: Buffer): number {
  const at = data.lastIndexOf(ESC);
  if (at < 0 || data.length - at > LONGEST_MARK) return 0;
  const last = data.subarray(at);
  if (last.includes(0x07)) return 0;
  return startsWith(last, OPEN) || startsWith(OPEN, last) ? last.length : 0;
}

function restore(status: number): string {
  if (status === 0) return "";
  if (status === 1) return " ! \\builtin :;";
  return (
    ` __bascule() { \\builtin unset -f __bascule; \\builtin return ${status}; };` +
    " __bascule && \\builtin :;"
  );
}

function report(nonce: string, letter: string): string {
  // `${!:-}`: the last background job, or nothing, also under `set -u`.
  return (
    `\\builtin printf '\\e]7771;${nonce};${letter};%s;%s;%s\\037%s\\037%s\\037${nonce}\\a' ` +
    '"$?" "${!:-}" "$-" "${PATH-}" "${PWD-}" >&255'
  );
}

/** A word of bash that stands for `text`, on one line. */
export function quoted(text: string): string {
  const escaped = text.replace(/[\\'\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`));
  return `$'${escaped}'`;
}

function parse(body: string): End {
  const [state = "", path = "", ...cwd] = body.split("\x1f");
  const [status, background, options = ""] = state.split(";");
  return {
    status: Number(status),
    backgroundPid: background ? Number(background) : -1,
    options,
    path,
    cwd: cwd.join("\x1f"),
  };
}

function lineStart(data: Buffer, at: number): number {
  return at === 0 ? 0 : data.lastIndexOf(NEWLINE, at - 1) + 1;
}

function startsWith(data: Buffer, start: Buffer): boolean {
  return data.length >= start.length && data.subarray(0, start.length).equals(start);
}
