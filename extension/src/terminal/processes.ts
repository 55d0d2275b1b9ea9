/** Finds and kills processes of our shells by a mark in their environment. */
import * as fs from "node:fs";

/** The environment variable with the mark: window id, host id and PID of the extension host. */
export const MARK_VARIABLE = "BASCULE_SHELL";

/**
 * Kills every process whose mark `isOurs` accepts, and returns their number. Child processes
 * outlive an extension host that is reloaded or killed, including those that left their terminal
 * (`setsid`, `nohup`). A process that cleared its environment is not found. Parents are killed
 * before their children: a script whose child was killed would start its next command. Needs /proc.
 */
export function endProcesses(isOurs: (value: string) => boolean): number {
  let ended = 0;
  // Repeat until no process is left: a process may start another process meanwhile.
  for (let found = marked(isOurs); found.length && ended < 10_000; found = marked(isOurs)) {
    for (const pid of parentsFirst(found, parentOf)) if (kill(pid)) ended += 1;
    if (!found.some(exists)) break;
  }
  return ended;
}

/** Sorts processes so that each one follows its parent. */
export function parentsFirst(
  pids: readonly number[],
  parentOf: (pid: number) => number | undefined,
): number[] {
  const rest = new Set(pids);
  const sorted: number[] = [];
  const add = (pid: number): void => {
    if (!rest.delete(pid)) return;
    const parent = parentOf(pid);
    if (parent !== undefined) add(parent);
    sorted.push(pid);
  };
  for (const pid of pids) add(pid);
  return sorted;
}

export interface MarkedProcess {
  pid: number;
  parent: number;
  command: string;
}

/** The processes whose mark `isOurs` accepts, without direct children of this process. */
export function programsWithMark(isOurs: (value: string) => boolean): MarkedProcess[] {
  return marked(isOurs).flatMap((pid) => {
    const parent = parentOf(pid);
    const command = commandOf(pid);
    // Direct children are the shells and workers themselves. A zombie has no command line.
    return parent === undefined || parent === process.pid || !command
      ? []
      : [{ pid, parent, command }];
  });
}

/** Its command line. Empty for a zombie. */
export function commandOf(pid: number): string {
  try {
    const words = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return words.join(" ").trim();
  } catch {
    return ""; // ended meanwhile
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
    // The second field is a name in parentheses, which may have any characters.
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return undefined; // ended meanwhile
  }
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
    const found = environment.split("\0").find((pair) => pair.startsWith(`${MARK_VARIABLE}=`));
    return found?.slice(MARK_VARIABLE.length + 1) ?? "";
  } catch {
    return ""; // the process ended, or belongs to another user
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

function exists(pid: number): boolean {
  return fs.existsSync(`/proc/${pid}/environ`);
}
