/** Where a path leads, and whether an agent may use it. */
import { readlink, realpath } from "node:fs/promises";
import * as path from "node:path";
import { codeOf, Failure } from "../common/failure";

export interface ResolvedPath {
  /** For people: absolute, otherwise as they wrote it. */
  shown: string;
  /** Links and `..` resolved, as far as it is there. */
  real: string;
}

export interface PathRules {
  /** The workspace folders, and what else the user allowed. */
  roots: () => string[];
  /** Other files that may be read: the logs of shells. */
  isReadable: (real: string) => boolean;
}

/**
 * Turns paths as people write them into real paths. Fails with `path.outside_roots` for whatever leads
 * out of the roots, be it there or not. What a program swaps between this look and the use is not
 * guarded against: agents that may run commands can reach those files anyway.
 */
export class PathResolver {
  constructor(private readonly rules: PathRules) {}

  absolute(given: string, cwd: string): string {
    if (!given) throw new Failure("path.invalid", "The path is empty");
    if (given.includes("\0"))
      throw new Failure("path.invalid", "The path holds a NUL character, which no path can");
    const joined = given.startsWith("/") ? given : `${cwd}/${given}`;
    const names = joined.split("/").filter((name) => name && name !== ".");
    return `/${names.join("/")}`;
  }

  /** Where an absolute path leads, whether it may be used or not. */
  real(absolute: string): Promise<string> {
    return resolved(absolute);
  }

  /** With `follow`, of the file that a link there leads to; else of the link. */
  async find(
    given: string,
    cwd: string,
    options: { follow?: boolean; toRead?: boolean } = {},
  ): Promise<ResolvedPath> {
    const { follow = true, toRead = false } = options;
    ensureSlashes();
    const shown = this.absolute(given, cwd);
    const real = follow
      ? await this.real(shown)
      : path.join(await resolved(path.dirname(shown)), path.basename(shown));
    const roots = await Promise.all(this.rules.roots().map(resolved));
    const inside = roots.some((root) => real === root || real.startsWith(withSlash(root)));
    if (inside || (toRead && this.rules.isReadable(real))) return { shown, real };
    const allowed = this.rules.roots().join(", ") || "nothing, since no folder is open";
    const origin = given.startsWith("/")
      ? ""
      : ` ('${given}' was taken from ${cwd}, where the agent's shell is)`;
    throw new Failure(
      "path.outside_roots",
      `${shown} leads outside of what may be used here: ${allowed}${origin}`,
    );
  }

  /** Whether a directory is one of the roots, or one of them is below it. */
  async holdsRoot(real: string): Promise<boolean> {
    const roots = await Promise.all(this.rules.roots().map(resolved));
    return roots.some((root) => root === real || root.startsWith(withSlash(real)));
  }
}

/** What the operating system or VS Code said, as the failure callers know. */
export function asFailure(error: unknown, shown: string): Failure {
  if (error instanceof Failure) return error;
  const reason = error instanceof Error ? error.message : String(error);
  switch (codeOf(error)) {
    case "ENOENT":
      return new Failure("path.not_found", `File not found: ${shown}`);
    case "EEXIST":
      return new Failure("path.exists", `${shown} exists already`);
    case "EISDIR":
      return new Failure(
        "path.is_directory",
        `Path is a directory: ${shown}. This works on files only`,
      );
    case "ENOTDIR":
      return new Failure(
        "path.not_directory",
        `${shown} is not a directory, or leads through a file`,
      );
    case "ENOTEMPTY":
      return new Failure(
        "path.not_empty",
        `${shown} is not empty; remove what is in it by \`recursive\``,
      );
    case "EACCES":
    case "EPERM":
      return new Failure("path.permission", `${shown}: permission denied`);
    case "ENAMETOOLONG":
    case "ELOOP":
    case "EINVAL":
    case "ENXIO":
      return new Failure("path.invalid", `${shown.slice(0, 200)}: ${reason}`);
    default:
      return new Failure("file.storage", `${shown}: ${reason}`);
  }
}

/** Does `work`, with failures of the operating system named after `shown`. */
export async function withPathErrors<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asFailure(error, shown);
  }
}

/** Links that may lead to each other without any of them leading to something. */
const MOST_LINKS = 40;

/** The real path of what is there, and the rest as it is written. */
async function resolved(file: string, links = 0): Promise<string> {
  let rest = "";
  for (let here = file; ; here = path.dirname(here)) {
    try {
      return path.join(await realpath(here), rest);
    } catch (error) {
      if (!["ENOENT", "ENOTDIR"].includes(codeOf(error)) || here === "/")
        throw asFailure(error, file);
      // A link to what is not there yet leads there all the same: writing to it makes that file.
      const target = await readlink(here).catch(() => undefined);
      if (target !== undefined && links < MOST_LINKS)
        return resolved(path.resolve(path.dirname(here), target, rest), links + 1);
      const name = path.basename(here);
      // Below what is not there `..` has no meaning; resolving it by name could lead anywhere.
      if (name === "..") throw new Failure("path.not_found", `File not found: ${file}`);
      rest = path.join(name, rest);
    }
  }
}

/** Everything here reads paths as they are written on Linux and macOS. */
function ensureSlashes(): void {
  if (path.sep !== "/")
    throw new Failure(
      "capability.missing",
      "Files of Windows itself cannot be used; open the folder in WSL, over SSH or in a container",
    );
}

function withSlash(root: string): string {
  return root.endsWith("/") ? root : `${root}/`;
}
