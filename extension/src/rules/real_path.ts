/** Resolves links in a path as the kernel does, even if the last parts do not exist. */
import { readlinkSync } from "node:fs";
import { posix } from "node:path";

/** The kernel follows at most this many links. It refuses a path with more. */
const MAX_LINKS = 40;

/** `path` is absolute. Unlike in `posix.resolve`, `..` after a link is its target's parent. */
export function realPath(path: string): string {
  const left = stepsOf(path).reverse();
  let at = "/";
  let links = 0;
  for (let step = left.pop(); step !== undefined; step = left.pop()) {
    const next = step === ".." ? posix.dirname(at) : posix.join(at, step);
    const target = step === ".." ? undefined : linkTarget(next);
    if (target === undefined || ++links > MAX_LINKS) {
      at = next;
      continue;
    }
    if (posix.isAbsolute(target)) at = "/";
    left.push(...stepsOf(target).reverse());
  }
  return at;
}

function stepsOf(path: string): string[] {
  return path.split("/").filter((step) => step !== "" && step !== ".");
}

function linkTarget(path: string): string | undefined {
  // Links such as /proc/self/cwd lead elsewhere for every process.
  if (path === "/proc" || path.startsWith("/proc/")) return undefined;
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // not a link, or missing
  }
}
