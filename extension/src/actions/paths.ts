/** Resolves paths and decides whether an agent may use them. */
import { readlink, realpath } from "node:fs/promises";
import * as path from "node:path";
import { codeOf, Failure } from "../common/failure";

export interface ResolvedPath {
  /** For messages: absolute, with symbolic links and `..` unresolved. */
  displayPath: string;
  /** With symbolic links and `..` resolved. */
  real: string;
}

export interface PathRules {
  /** The workspace folders, and other directories that the user allowed. */
  roots: () => string[];
  /** Whether a file outside the roots may be read. True for the logs of shells. */
  isReadable: (real: string) => boolean;
}

/**
 * Resolves a given path to a real path. Fails with `path.outside_roots` if the result is outside
 * the roots, whether or not the file exists. There is no protection against a program that swaps a
 * link after this check: an agent that can run commands can reach such files anyway.
 */
export class PathResolver {
  constructor(private readonly rules: PathRules) {}

  absolute(given: string, cwd: string): string {
    if (!given) throw new Failure("path.invalid", "The path is empty");
    if (given.includes("\0"))
      throw new Failure("path.invalid", "The path contains a NUL character, which no path can");
    const joined = given.startsWith("/") ? given : `${cwd}/${given}`;
    const names = joined.split("/").filter((name) => name && name !== ".");
    return `/${names.join("/")}`;
  }

  /** The real path of an absolute path, without a check of the roots. */
  real(absolute: string): Promise<string> {
    return resolved(absolute);
  }

  /** Resolves a path. With `follow: false`, the result can be a symbolic link itself. */
  async find(
    given: string,
    cwd: string,
    options: { follow?: boolean; toRead?: boolean } = {},
  ): Promise<ResolvedPath> {
    const { follow = true, toRead = false } = options;
    ensureSlashes();
    const displayPath = this.absolute(given, cwd);
    const real = follow
      ? await this.real(displayPath)
      : path.join(await resolved(path.dirname(displayPath)), path.basename(displayPath));
    const roots = await Promise.all(this.rules.roots().map(resolved));
    const inside = roots.some((root) => real === root || real.startsWith(withSlash(root)));
    if (inside || (toRead && this.rules.isReadable(real))) return { displayPath, real };
    const allowed = this.rules.roots().join(", ") || "nothing, since no folder is open";
    const origin = given.startsWith("/")
      ? ""
      : ` ('${given}' was taken from ${cwd}, where the agent's shell is)`;
    throw new Failure(
      "path.outside_roots",
      `${displayPath} is outside the allowed directories: ${allowed}${origin}`,
    );
  }

  /** Whether a directory is a root or contains a root. */
  async holdsRoot(real: string): Promise<boolean> {
    const roots = await Promise.all(this.rules.roots().map(resolved));
    return roots.some((root) => root === real || root.startsWith(withSlash(real)));
  }
}

/** Converts an error of the operating system or VS Code into a `Failure`. */
export function asFailure(error: unknown, displayPath: string): Failure {
  if (error instanceof Failure) return error;
  const reason = error instanceof Error ? error.message : String(error);
  switch (codeOf(error)) {
    case "ENOENT":
      return new Failure("path.not_found", `File not found: ${displayPath}`);
    case "EEXIST":
      return new Failure("path.exists", `${displayPath} exists already`);
    case "EISDIR":
      return new Failure(
        "path.is_directory",
        `Path is a directory: ${displayPath}. This works on files only`,
      );
    case "ENOTDIR":
      return new Failure(
        "path.not_directory",
        `${displayPath} is not a directory, or leads through a file`,
      );
    case "ENOTEMPTY":
      return new Failure(
        "path.not_empty",
        `${displayPath} is not empty; remove what is in it by \`recursive\``,
      );
    case "EACCES":
    case "EPERM":
      return new Failure("path.permission", `${displayPath}: permission denied`);
    case "ENAMETOOLONG":
    case "ELOOP":
    case "EINVAL":
    case "ENXIO":
      return new Failure("path.invalid", `${displayPath.slice(0, 200)}: ${reason}`);
    default:
      return new Failure("file.storage", `${displayPath}: ${reason}`);
  }
}

/** Runs `work` and converts its errors into failures that name `shown`. */
export async function withPathErrors<T>(displayPath: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asFailure(error, displayPath);
  }
}

/** Maximum length of a chain of dangling symbolic links. */
const MAX_LINKS = 40;

/** The real path of the part that exists, followed by the rest of the path as written. */
async function resolved(file: string, links = 0): Promise<string> {
  let rest = "";
  for (let here = file; ; here = path.dirname(here)) {
    try {
      return path.join(await realpath(here), rest);
    } catch (error) {
      if (!["ENOENT", "ENOTDIR"].includes(codeOf(error)) || here === "/")
        throw asFailure(error, file);
      // Follow a dangling link too: writing to it creates its target.
      const target = await readlink(here).catch(() => undefined);
      if (target !== undefined && links < MAX_LINKS)
        return resolved(path.resolve(path.dirname(here), target, rest), links + 1);
      const name = path.basename(here);
      // `..` below a missing directory cannot be resolved; treating it textually could lead
      // anywhere.
      if (name === "..") throw new Failure("path.not_found", `File not found: ${file}`);
      rest = path.join(name, rest);
    }
  }
}

/** This module only handles paths with forward slashes (Linux, macOS). */
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
