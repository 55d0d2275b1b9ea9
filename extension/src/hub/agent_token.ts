/** A token for agents beside this window. The window's own may not do what an agent does. */
import { within } from "../common/deadline";
import { Failure } from "../common/failure";
import type { KeyValueStore } from "./identity";

const PATIENCE_MS = 10_000;

/** What a person answers; nothing when they would rather not. `complaint` is about the last answer. */
export type AskForToken = (hub: string, complaint: string) => Promise<string | undefined>;

/** The token kept for `hub`, or one that is asked for until it is good, and kept then. */
export async function agentToken(
  hub: string,
  secrets: KeyValueStore,
  name: string,
  ask: AskForToken,
): Promise<string | undefined> {
  const key = `${name}.${hub}`;
  const known = await secrets.get(key);
  let complaint = known ? await refusal(hub, known) : "";
  if (known && !complaint) return known;
  for (;;) {
    const given = (await ask(hub, complaint))?.trim();
    if (!given) return undefined;
    complaint = await refusal(hub, given);
    if (!complaint) {
      await secrets.set(key, given);
      return given;
    }
  }
}

/** Why the hub would not let an agent in with it; empty when it would. */
async function refusal(hub: string, token: string): Promise<string> {
  const url = new URL("/api/vscode/instances", hub);
  const headers = { Authorization: `Bearer ${token}` };
  const unreachable = () => new Failure("hub.unreachable", `No hub answers at ${hub}`);
  const response = await within(fetch(url, { headers }), PATIENCE_MS, unreachable).catch(
    (error: unknown) => {
      throw error instanceof Failure ? error : unreachable();
    },
  );
  await response.body?.cancel();
  if (response.status === 401) return "The hub does not know this token";
  if (response.status === 403) return "This token is not one for agents";
  return "";
}
