/**
 * Notes around a command's output. The same texts as the sandbox's
 * (src/bascule/sandbox/shell/notes.py): agents are trained on the first words of each.
 */
import { shorten, strip } from "../common/text";

const NEXT =
  "It is still running. Send an empty command to read on, send its input or a key (C-c, C-z, " +
  "C-d) with is_input, or give the next command a longer timeout.";

export const PREVIOUS = "[Below is the output of the previous command.]\n";
export const NOTHING_TO_READ = "ERROR: No previous running command to retrieve logs from.";
export const NOTHING_TO_TYPE_INTO = "ERROR: No previous running command to interact with.";
export const NEW_SHELL =
  "\n[This is a new shell: variables, functions, options and jobs of the one before are gone.]";
export const INTEGRATED =
  "[Commands run through VS Code's shell integration here: they are slow, and the status of some is unknown.]\n";
export const OTHER_READER = "\n[Another call is waiting for this command and gets its output.]";
export const USER_TYPED = "\n[The user typed into this program in the terminal.]";

export function completed(status: number, key = ""): string {
  const sent = key ? ` CTRL+${key.slice(-1).toUpperCase()} was sent.` : "";
  return `\n[The command completed with exit code ${status}.${sent}]`;
}

export function noNewOutput(seconds: number): string {
  return `\n[The command has no new output after ${seconds} seconds. ${NEXT}]`;
}

export function timedOut(seconds: number): string {
  const shown = Number.isInteger(seconds) ? `${seconds}.0` : `${seconds}`;
  return `\n[The command timed out after ${shown} seconds. ${NEXT}]`;
}

export function leftByPrevious(status: number, head: string, tail: string): string {
  const rest = strip(head) ? ` It printed:]\n${head}${tail && ` … ${tail}`}\n[` : " ";
  return (
    `[The previous command ended meanwhile with exit code ${status}.${rest}` +
    "Below is the output of your command.]\n"
  );
}

export function refused(command: string): string {
  return (
    `\n[Your command "${shorten(command, 200)}" is NOT executed. The previous command is still running. Send ` +
    "an empty command to wait for it, use is_input to type into it or to interrupt it with " +
    "C-c, name another shell, or set queue to have commands wait their turn.]"
  );
}

export function shellEnded(status: number, cwd: string): string {
  return (
    `\n[The shell itself ended with exit code ${status}. The next command gets a new one, ` +
    `starting in ${cwd}.]`
  );
}

export function shellReplaced(cwd: string): string {
  return (
    "\n[exec replaced the shell by another one. The next command gets a new bash with its " +
    `environment, starting in ${cwd}.]`
  );
}

export function statusUnknown(): string {
  return "\n[The command ended, but the shell could not report its status, so it is -1.]";
}

export function leftOut(size: number, path: string, start: number, end: number): string {
  return `\n[… ${size.toLocaleString("en")} bytes left out; bytes ${start} to ${end} of ${path} have it all …]\n`;
}
