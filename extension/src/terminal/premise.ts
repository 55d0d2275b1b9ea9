/**
 * The conditions under which a rule allows a command: the shell is in the expected directory, and
 * the names in the command are programs, not functions. Earlier commands may have changed both, so
 * bash is asked.
 */
import { realPath } from "../rules/real_path";
import type { ShellFacts } from "./marks";

export interface ShellPremise {
  /** The shell's directory before the command. */
  readonly cwd: string;
  /** Names of the commands in the text. None may be a function or an alias. */
  readonly names: readonly string[];
}

/** Bash gave no answer that can be understood, for example because of `set -x`. */
export const UNCLEAR = "unclear";

export type ShellState = (ShellFacts & { directory: string }) | typeof UNCLEAR;

/** The function that bash runs if it does not find a program. */
const NOT_FOUND = "command_not_found_handle";

/** The names to ask bash about, each once. */
export function namesToInspect(names: readonly (string | null)[]): string[] {
  const known = names.filter((name): name is string => name !== null);
  return [...new Set([...known, NOT_FOUND])];
}

/** Functions and aliases among the names: `git is a function`. */
export function redefinedNames(state: ShellState): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (state === UNCLEAR) return found;
  for (const [name, type] of state.types)
    if (type === "function" || type === "alias") found.set(name, type);
  return found;
}

/** Why no text can be judged in a shell of this state, or undefined. */
export function shellObjection(state: ShellState): string | undefined {
  if (state === UNCLEAR) return "The shell does not report what its commands mean.";
  if (state.options.includes("expand_aliases")) return "Aliases are on in this shell.";
  if (state.options.includes("extglob")) return "Extended globs are on in this shell.";
  if (state.flags.includes("k")) return "The option -k is on in this shell.";
  if (state.hasCdPath) return "CDPATH is set in this shell.";
  if (state.flags.includes("P") || realPath(state.cwd) !== state.directory)
    return "The directory of this shell is not clear.";
  if (redefinedNames(state).has(NOT_FOUND)) return `${NOT_FOUND} is a function in this shell.`;
  return undefined;
}

/** Why the premise does not hold in a shell of this state, or undefined. */
export function brokenPremise({ cwd }: ShellPremise, state: ShellState): string | undefined {
  const objection = shellObjection(state);
  if (objection !== undefined || state === UNCLEAR) return objection;
  if (state.cwd !== cwd) return `its directory is ${state.cwd}`;
  const [redefined] = redefinedNames(state);
  return redefined && `${redefined[0]} is ${redefined[1] === "alias" ? "an alias" : "a function"}`;
}
