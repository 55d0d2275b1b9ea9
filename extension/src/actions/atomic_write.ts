/** Writes a file whole or not at all: a host that is killed meanwhile leaves the old content. */
import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { access, open, rename, rm, stat, writeFile } from "node:fs/promises";
import * as path from "node:path";
import { codeOf } from "../common/failure";

/** With these the directory takes no other file, or the owner cannot be kept: written in place. */
const IN_PLACE = new Set(["EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "EXDEV", "EBUSY"]);

/** The new content of a file that is there. Its mode and its owner stay. */
export async function replaceFile(file: string, data: Buffer): Promise<void> {
  // Renaming over a file that is write-protected would work where writing to it does not.
  await access(file, constants.W_OK);
  const there = await stat(file);
  // A new file under the name would not be the one that other names of it lead to.
  if (there.nlink > 1) return writeFile(file, data);
  const beside = path.join(path.dirname(file), `.${randomUUID()}.bascule-tmp`);
  try {
    await writeLike(beside, there, data);
    await rename(beside, file);
  } catch (error) {
    await rm(beside, { force: true });
    if (!IN_PLACE.has(codeOf(error))) throw error;
    await writeFile(file, data);
  }
}

async function writeLike(file: string, like: Stats, data: Buffer): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  try {
    const made = await handle.stat();
    if (made.uid !== like.uid || made.gid !== like.gid) await handle.chown(like.uid, like.gid);
    await handle.chmod(like.mode & 0o7777); // after `chown`, which clears setuid
    await handle.writeFile(data);
  } finally {
    await handle.close();
  }
}
