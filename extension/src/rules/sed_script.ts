/** Finds sed scripts that do more than print, delete or replace: they can run programs or write. */
import type { ShellWord } from "./shell_words";

const ADDRESS = String.raw`(?:\d+|\$|\/(?:\\.|[^\/\\\n])+\/I?)`;
const RANGE = String.raw`${ADDRESS}(?:[ \t]*,[ \t]*(?:${ADDRESS}|[+~]\d+))?`;
const PRINT = new RegExp(String.raw`^[ \t]*${RANGE}[ \t]*[pdq][ \t]*$`);
const FLAGS = /^[giIp\d]*[ \t]*$/;
/** Any printable ASCII character but a backslash. */
const DELIMITER = /^[ -[\]-~]$/;

export function isHarmlessSedScript(script: string): boolean {
  if (script.includes("\n")) return false;
  return PRINT.test(script) || isReplacement(script.replace(/^[ \t]+/, ""));
}

/** Whether the script is one `s` command, with any delimiter. */
function isReplacement(script: string): boolean {
  const delimiter = script[1];
  if (!script.startsWith("s") || delimiter === undefined || !DELIMITER.test(delimiter))
    return false;
  const ends: number[] = [];
  for (let at = 2; at < script.length && ends.length < 2; at++) {
    if (script[at] === "\\") at++;
    else if (script[at] === delimiter) ends.push(at);
  }
  const end = ends[1];
  return end !== undefined && FLAGS.test(script.slice(end + 1));
}

const SCRIPT_FILE = /^(?:-[^-efil]*f|--fi[a-z]*(?==|$))/;

export interface SedScript {
  /** The index of the word that contains the script. */
  readonly at: number;
  readonly script: string;
}

/** The scripts of a sed command: those of `-e`, or its first operand if there is no `-e` or `-f`. */
export function sedScripts(words: readonly ShellWord[]): SedScript[] {
  const given: SedScript[] = [];
  const operands: number[] = [];
  let hasFile = false;
  for (let at = 1; at < words.length; at++) {
    const value = words[at]?.value ?? "";
    if (value === "--") {
      operands.push(at + 1);
      break;
    }
    const option = scriptOption(value);
    const file = SCRIPT_FILE.exec(value)?.[0];
    if (!value.startsWith("-") || value === "-") operands.push(at);
    else if (option?.script) given.push({ at, script: option.script });
    else if (option) given.push({ at: ++at, script: words[at]?.value ?? "" });
    else if (file !== undefined) {
      hasFile = true;
      if (file === value) at++;
    } else if (takesLength(value)) at++;
  }
  if (given.length || hasFile) return given;
  const first = operands[0];
  if (first === undefined || first >= words.length) return [];
  return [{ at: first, script: words[first]?.value ?? "" }];
}

/** Parses `-e`, alone or after other letters, or `--expression`. The word may hold the script. */
function scriptOption(value: string): { script: string | undefined } | undefined {
  const [, long] = /^(--e[a-z]*)(?:=|$)/.exec(value) ?? [];
  if (long) return { script: value.slice(long.length + 1) || undefined };
  const [, short] = /^(-[^-efil]*e)/.exec(value) ?? [];
  return short ? { script: value.slice(short.length) || undefined } : undefined;
}

function takesLength(value: string): boolean {
  return /^-[^-efil]*l$|^--l[a-z-]*$/.test(value);
}
