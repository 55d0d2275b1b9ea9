/** A window's identity: a stored id and key, and a host id that is new after each reload. */
import { randomBytes, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { WindowIdentity } from "./messages";

export interface KeyValueStore {
  get(name: string): Promise<string | undefined>;
  set(name: string, value: string): Promise<void>;
}

/** Stores the id in the workspace state, and the key, which proves the id, as a secret. */
export async function identify(
  workspace: KeyValueStore,
  secrets: KeyValueStore,
  names: { id: string; key: string },
): Promise<WindowIdentity> {
  const window_id = await keep(workspace, names.id, randomUUID);
  const key = () => randomBytes(32).toString("base64url");
  const window_key = await keep(secrets, `${names.key}.${window_id}`, key);
  return { window_id, window_key, host_id: randomUUID() };
}

/** Reads the identity from a file, so that the window is the same in every browser. */
export async function readIdentity(file: string): Promise<WindowIdentity> {
  const { window_id, window_key } = JSON.parse(await readFile(file, "utf8")) as Record<
    string,
    unknown
  >;
  if (typeof window_id !== "string" || typeof window_key !== "string")
    throw new Error(`${file} contains no window_id and window_key`);
  return { window_id, window_key, host_id: randomUUID() };
}

async function keep(kept: KeyValueStore, name: string, make: () => string): Promise<string> {
  const known = await kept.get(name);
  if (known) return known;
  const value = make();
  await kept.set(name, value);
  return value;
}
