/**
 * Temporary directories of this extension host. Their owner removes them. A killed host cannot, so
 * the next host removes them at start.
 */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { isAlive } from "./process_alive";

const NAME = /^bascule-[a-z]+-(\d+)-(\d+)-[^-]{6}$/;

/** Creates a directory that only this user can enter. */
export function makeTemporary(kind: string): string {
  return fs.mkdtempSync(path.join(os.tmpdir(), `bascule-${kind}-${namespace()}-${process.pid}-`));
}

/** Removes directories of this user's ended hosts and returns their number. */
export function sweepTemporary(): number {
  return fs.readdirSync(os.tmpdir()).filter((name) => isLeft(name) && remove(name)).length;
}

function remove(name: string): boolean {
  try {
    fs.rmSync(path.join(os.tmpdir(), name), { recursive: true, force: true });
    return true;
  } catch {
    return false; // another host that starts now may be removing it too
  }
}

function isLeft(name: string): boolean {
  const [, where, pid] = NAME.exec(name) ?? [];
  if (where !== namespace() || !pid || isAlive(Number(pid))) return false;
  const found = fs.lstatSync(path.join(os.tmpdir(), name), { throwIfNoEntry: false });
  return found?.uid === process.getuid?.();
}

/** The PID namespace: containers may share /tmp but not process ids. */
function namespace(): string {
  try {
    return fs.readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  } catch {
    return "0"; // not Linux
  }
}
