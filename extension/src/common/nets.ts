/** Which files are nets, and how to find the `bascule` program that handles them. */
import * as fs from "node:fs";
import * as path from "node:path";
import { Failure } from "./failure";

/** Error code: bascule was not found. */
export const NO_PROGRAM = "net.no_program";

export const NET_ENDINGS = [".evolve.yaml", ".evolve.yml", ".pnml.yaml", ".pnml"] as const;

export function isNet(path: string): boolean {
  return NET_ENDINGS.some((ending) => path.endsWith(ending));
}

/** The command line that runs bascule: with `python`, or the command `bascule` if it is empty. */
export function bascule(python: string, ...args: string[]): [string, ...string[]] {
  return python ? [python, "-m", "bascule", ...args] : ["bascule", ...args];
}

/**
 * The Python that has bascule: the setting, or else the `bascule` command (returned as an empty
 * string), or else a workspace's virtual environment. Fails with `NO_PROGRAM` if there is none.
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
    "bascule was not found: install it (pip install bascule), or set bascule.python to a Python that has it",
  );
}
