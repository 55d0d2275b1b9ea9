/** Finds the processes our shells started by a mark in their environment, and ends them. */
import * as fs from "node:fs";

/** The variable that holds the mark: the window's id and the extension host's. */
export const KEY = "BASCULE_SHELL";

/**
 * Kills every process whose mark `isOurs`. Children outlive an extension host that is reloaded or
 * killed, also those that left their terminal (`setsid`, `nohup`); one that cleared its
 * environment is not found. Works where there is /proc.
 */
export function endProcesses(isOurs: (value: string) => boolean): number {
  let ended = 0;
  // Again until there are none: a process may start another while we look.
  for (let found = marked(isOurs); found.length && ended < 10_000; found = marked(isOurs)) {
    for (const pid of found) if (kill(pid)) ended += 1;
    if (!found.some(isThere)) break;
  }
  return ended;
}

function marked(isOurs: (value: string) => boolean): number[] {
  let names: string[];
  try {
    names = fs.readdirSync("/proc");
  } catch {
    return [];
  }
  return names
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && isOurs(markOf(pid)));
}

function markOf(pid: number): string {
  try {
    const environment = fs.readFileSync(`/proc/${pid}/environ`, "utf8");
    const found = environment.split("\0").find((pair) => pair.startsWith(`${KEY}=`));
    return found?.slice(KEY.length + 1) ?? "";
  } catch {
    return ""; // ended meanwhile, or another user's
  }
}

function kill(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false;
  }
}

function isThere(pid: number): boolean {
  return fs.existsSync(`/proc/${pid}/environ`);
}
