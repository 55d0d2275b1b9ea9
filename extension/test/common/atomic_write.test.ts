import { chmod, link, mkdtemp, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { replaceFile } from "../../src/common/atomic_write";

async function made(): Promise<{ directory: string; file: string }> {
  const directory = await mkdtemp(join(tmpdir(), "replacing-"));
  const file = join(directory, "file");
  await writeFile(file, "old");
  return { directory, file };
}

test("the content is replaced, the mode stays, and nothing is left beside", async () => {
  const { directory, file } = await made();
  await chmod(file, 0o751);
  await replaceFile(file, Buffer.from("new"));
  expect(await readFile(file, "utf8")).toBe("new");
  expect((await stat(file)).mode & 0o777).toBe(0o751);
  expect(await readdir(directory)).toEqual(["file"]);
});

test("a file with a second name stays one file", async () => {
  const { directory, file } = await made();
  const other = join(directory, "other");
  await link(file, other);
  await replaceFile(file, Buffer.from("new"));
  expect(await readFile(other, "utf8")).toBe("new");
});

test("a file that is gone is not made", async () => {
  const { directory } = await made();
  await expect(replaceFile(join(directory, "gone"), Buffer.from("x"))).rejects.toThrow("ENOENT");
  expect(await readdir(directory)).toEqual(["file"]);
});
