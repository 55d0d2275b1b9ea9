/**
 * Replaces a file atomically: if the extension host is killed meanwhile, the old content remains.
 */
import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { access, open, rename, rm, stat, writeFile } from "node:fs/promises";
import * as path from "node:path";
import { codeOf } from "./failure";

/**
 * Errors after which `replaceFile` writes in place: it cannot create or rename a second file, or
 * cannot give that file the same owner.
 */
const IN_PLACE = new Set(["EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "EXDEV", "EBUSY"]);

/** Replaces the content of an existing file. Mode and owner are kept. */
export async function replaceFile(file: string, data: Buffer): Promise<void> {
  // Without this check, the rename would replace even a write-protected file.
  await access(file, constants.W_OK);
  const there = await stat(file);
  // The file has hard links: a rename would leave the other names with the old content.
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
