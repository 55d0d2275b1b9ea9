/**
 * Directories of this extension host's own among the machine's temporary files. Whoever made one
 * removes it; a host that is killed cannot, so the next one does that for it.
 */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

const NAME = /^bascule-[a-z]+-(\d+)-(\d+)-[^-]{6}$/;

/** A new directory that only this user can enter. */
export function makeTemporary(kind: string): string {
  return fs.mkdtempSync(path.join(os.tmpdir(), `bascule-${kind}-${namespace()}-${process.pid}-`));
}

/** Removes those of this user's hosts that are no more; returns how many there were. */
export function sweepTemporary(): number {
  return fs.readdirSync(os.tmpdir()).filter((name) => isLeft(name) && remove(name)).length;
}

function remove(name: string): boolean {
  try {
    fs.rmSync(path.join(os.tmpdir(), name), { recursive: true, force: true });
    return true;
  } catch {
    return false; // another host that begins now was at it as well
  }
}

function isLeft(name: string): boolean {
  const [, where, pid] = NAME.exec(name) ?? [];
  if (where !== namespace() || !pid || isAlive(Number(pid))) return false;
  const found = fs.lstatSync(path.join(os.tmpdir(), name), { throwIfNoEntry: false });
  return found?.uid === process.getuid?.();
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH"; // else it is another user's
  }
}

/** Where numbers of processes mean the same: containers may share a directory, and not those. */
function namespace(): string {
  try {
    return fs.readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  } catch {
    return "0"; // a system that has none
  }
}
