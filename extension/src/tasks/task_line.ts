/** The command line of a task, exactly as VS Code passes it to the shell. */
import type * as vscode from "vscode";
import { bashWord } from "../common/bash_word";

type ShellPart = string | vscode.ShellQuotedString;

/** Values of `vscode.ShellQuoting`. */
const ESCAPE = 1;
const STRONG = 2;
const WEAK = 3;
/** How VS Code quotes for bash, zsh and every other shell of Linux and macOS. */
const UNIX_QUOTING: vscode.ShellQuotingOptions = {
  escape: { escapeChar: "\\", charsToEscape: " \"'" },
  strong: "'",
  weak: '"',
};

/** Empty if the task only has dependencies, or runs code of an extension. */
export function taskLine(execution: vscode.Task["execution"]): string {
  if (!execution || !("options" in execution)) return "";
  if ("process" in execution) return [execution.process, ...execution.args].map(bashWord).join(" ");
  const line = shellLine(execution);
  const { executable, shellArgs = ["-c"] } = execution.options ?? {};
  if (!executable) return line;
  return [...[executable, ...shellArgs].map(bashWord), bashWord(line)].join(" ");
}

/**
 * VS Code's own rules, which are not those of a shell: `quoting` adds quotation marks or escapes
 * without regard to those in the value, so that a value can still contain other commands.
 */
function shellLine({ commandLine, command, args, options }: vscode.ShellExecution): string {
  if (commandLine) return commandLine;
  if (typeof command === "string" && !args?.length) return command;
  const quoting = options?.shellQuoting ?? UNIX_QUOTING;
  const parts = [command ?? "", ...(args ?? [])];
  return parts.map((part) => quotedPart(part, quoting)).join(" ");
}

function quotedPart(part: ShellPart, quoting: vscode.ShellQuotingOptions): string {
  if (typeof part !== "string") return quotedAs(part.quoting, part.value, quoting);
  return hasBareSpace(part, quoting) ? quotedAs(STRONG, part, quoting) : part;
}

function quotedAs(kind: number, value: string, quoting: vscode.ShellQuotingOptions): string {
  const { escape, strong, weak } = quoting;
  if (kind === STRONG && strong) return strong + value + strong;
  if (kind === WEAK && weak) return weak + value + weak;
  if (kind !== ESCAPE || !escape) return value;
  const { escapeChar, charsToEscape } =
    typeof escape === "string" ? { escapeChar: escape, charsToEscape: " " } : escape;
  const escaped = (each: string): string =>
    charsToEscape.includes(each) ? escapeChar + each : each;
  return Array.from(value, escaped).join("");
}

/** Whether a space is outside quotation marks: VS Code then quotes the text. */
function hasBareSpace(text: string, quoting: vscode.ShellQuotingOptions): boolean {
  const { escape, strong, weak } = quoting;
  const marks = [strong, weak].filter((each) => each !== undefined);
  if (text.length >= 2 && marks.includes(text.charAt(0)) && text.at(-1) === text.charAt(0))
    return false;
  let open: string | undefined;
  for (let n = 0; n < text.length; n += 1) {
    const each = text.charAt(n);
    if (each === open) open = undefined;
    else if (open === undefined && each === escape) n += 1;
    else if (open === undefined && marks.includes(each)) open = each;
    else if (open === undefined && each === " ") return true;
  }
  return false;
}
