/** Which files are nets, and the program that knows them. */
import * as fs from "node:fs";
import * as path from "node:path";
import { Failure } from "./failure";

/** There is no bascule to ask. */
export const NO_PROGRAM = "net.no_program";

export const NET_ENDINGS = [".evolve.yaml", ".evolve.yml", ".pnml.yaml", ".pnml"] as const;

export function isNet(path: string): boolean {
  return NET_ENDINGS.some((ending) => path.endsWith(ending));
}

/** `bascule` with these arguments: that of a Python, or else the command. */
export function bascule(python: string, ...args: string[]): [string, ...string[]] {
  return python ? [python, "-m", "bascule", ...args] : ["bascule", ...args];
}

/**
 * The Python that has bascule: the one that is set, or that of a workspace's own environment; empty for
 * the `bascule` command, which comes before the latter. Fails with `NO_PROGRAM` where there is none.
 */
export function findBascule(setting: string, folders: readonly string[]): string {
  if (setting) return setting;
  const directories = (process.env.PATH ?? "").split(path.delimiter);
  if (directories.some((each) => each && fs.existsSync(path.join(each, "bascule")))) return "";
  const own = folders
    .flatMap((folder) => [".venv", "venv"].map((name) => path.join(folder, name, "bin")))
    .find((each) => fs.existsSync(path.join(each, "bascule")));
  if (own) return path.join(own, "python");
  throw new Failure(
    NO_PROGRAM,
    "There is no bascule for nets: install it (pip install bascule), or set bascule.python to a Python that has it",
  );
}
