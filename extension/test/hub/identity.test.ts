import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readIdentity } from "../../src/hub/identity";

async function fileWith(text: string): Promise<string> {
  const file = join(await mkdtemp(join(tmpdir(), "identity-")), "window.json");
  await writeFile(file, text);
  return file;
}

test("a window that was given who it is says so, with a host of its own each time", async () => {
  const file = await fileWith(JSON.stringify({ window_id: "w", window_key: "k" }));
  const [one, other] = [await readIdentity(file), await readIdentity(file)];
  expect(one).toEqual({ window_id: "w", window_key: "k", host_id: one.host_id });
  expect(other.host_id).not.toBe(one.host_id);
});

test("a file that does not say who the window is is refused", async () => {
  const file = await fileWith(JSON.stringify({ window_id: 1 }));
  await expect(readIdentity(file)).rejects.toThrow("window_key");
});
