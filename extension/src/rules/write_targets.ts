/** Which files a redirection may write or read, and which directories `cd` may enter. */
import { posix } from "node:path";
import type { ShellRedirection } from "./command_tree";

/** The folders in which commands may write, and how links are resolved there. */
export interface WritableFolders {
  /** Absolute paths. */
  readonly workspaces: readonly string[];
  /**
   * Resolves links as the kernel does: `..` after a link is the parent of its target. Without this
   * function, a path is judged as written.
   */
  readonly realPath?: (path: string) => string;
  /** Whether a file outside of the usual protected paths is protected too. Gets resolved paths. */
  readonly isProtected?: (path: string) => boolean;
}

export interface WriteProblem {
  readonly reason: string;
  /** The path is in the workspace, but other programs run or trust its content. */
  readonly isProtected: boolean;
}

/** The directories that the shell may be in; undefined if unknown. */
export type Directories =
  | {
      /** Absolute paths. */
      readonly paths: readonly string[];
      /** Whether the shell may also be below these paths, because a loop repeats a `cd`. */
      readonly orBelow: boolean;
    }
  | undefined;

const WRITE_OPERATORS = new Set([">", ">>", ">|", "<>", "&>", "&>>"]);
const DEVICE = /^\/dev\/(?:null|stdout|stderr|tty|fd\/\d+)$/;
const DESCRIPTOR = /^(?:\d+-?|-)$/;
const NETWORK = ["/dev/tcp/", "/dev/udp/"];
const PROTECTED_DIRECTORY = /^(?:\.git|\.vscode|\.husky)$/i;
const PROTECTED_FILE = /^(?:.*\.code-workspace|\.envrc|bascule\.toml)$/i;

/** Why the user is asked about a redirection, or undefined. */
export function redirectionProblem(
  { operator, target }: ShellRedirection,
  { directories, folders }: { directories: Directories; folders: WritableFolders },
): WriteProblem | undefined {
  if (!target) return undefined;
  if (operator === "<")
    return NETWORK.some((each) => mayStartWith(target, each))
      ? asks("It reads from the network.")
      : undefined;
  const copies = target.value !== undefined && DESCRIPTOR.test(target.value);
  if (!WRITE_OPERATORS.has(operator) && (operator !== ">&" || copies)) return undefined;
  if (target.value === undefined) return asks("It writes a file whose name is not known.");
  if (DEVICE.test(target.value)) return undefined;
  const paths = possiblePaths(target.value, directories, folders);
  if (!paths) return asks("It writes below a directory that is not known.");
  return paths.map((path) => writeProblem(path, folders)).find((each) => each !== undefined);
}

function asks(reason: string): WriteProblem {
  return { reason, isProtected: false };
}

function mayStartWith(
  { value, prefix }: { value: string | undefined; prefix: string },
  wanted: string,
): boolean {
  // Bash compares the name as written.
  if (value !== undefined) return value.startsWith(wanted);
  return prefix !== "" && (prefix.startsWith(wanted) || wanted.startsWith(prefix));
}

function writeProblem(path: string, folders: WritableFolders): WriteProblem | undefined {
  const written = posix.resolve(path);
  const real = folders.realPath?.(path) ?? written;
  const leads = real === written ? "" : `, which leads to ${real}`;
  if (!isInFolders(path, folders))
    return asks(`It writes ${written}${leads}, which is not in the workspace.`);
  return isProtectedPath(path, folders)
    ? {
        reason: `It writes ${written}${leads}, which can make other programs run code.`,
        isProtected: true,
      }
    : undefined;
}

/** Whether a path is in a workspace, both as written and with links resolved. */
export function isInFolders(path: string, { workspaces, realPath }: WritableFolders): boolean {
  const written = posix.resolve(path);
  if (!workspaces.some((each) => isInside(written, each))) return false;
  if (!realPath) return true;
  const real = realPath(path);
  return workspaces.some((each) => isInside(real, realPath(each)));
}

/** Whether a path in a workspace is protected, as written or with links resolved. */
export function isProtectedPath(
  path: string,
  { workspaces, realPath, isProtected }: WritableFolders,
): boolean {
  const written = posix.resolve(path);
  if (isProtectedIn(written, workspaces)) return true;
  const real = realPath?.(path) ?? written;
  if (isProtected?.(real)) return true;
  return realPath !== undefined && isProtectedIn(real, workspaces.map(realPath));
}

/** Whether other programs run or trust the content of this path in a workspace. */
function isProtectedIn(path: string, workspaces: readonly string[]): boolean {
  const workspace = workspaces.find((each) => isInside(path, each)) ?? "/";
  const steps = posix.relative(posix.normalize(workspace), path).split("/");
  return (
    steps.some((step) => PROTECTED_DIRECTORY.test(step)) || PROTECTED_FILE.test(steps.at(-1) ?? "")
  );
}

/**
 * Every path that `path` can mean, with its `..`, or undefined if the current directory matters and
 * is unknown.
 */
export function possiblePaths(
  path: string,
  directories: Directories,
  { realPath }: WritableFolders,
): string[] | undefined {
  if (posix.isAbsolute(path)) return [path];
  // A later iteration of a loop may start in another directory, or pass through unchecked links.
  if (directories?.orBelow && (realPath ?? path.split("/").includes(".."))) return undefined;
  return directories?.paths.map((directory) => `${directory}/${path}`);
}

function isInside(path: string, directory: string): boolean {
  const root = posix.resolve(directory);
  return path === root || path.startsWith(root === "/" ? "/" : `${root}/`);
}
