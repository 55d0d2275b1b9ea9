/** Gets an agent token for VS Code's own agents, which cannot use the window's token. */
import { within } from "../common/deadline";
import { Failure } from "../common/failure";
import type { KeyValueStore } from "./identity";

const REQUEST_MS = 10_000;

/**
 * Asks the user for a token; undefined if cancelled. `problem` says why the hub refused the last
 * token.
 */
export type AskForToken = (hub: string, problem: string) => Promise<string | undefined>;

/** The stored token of `hub`. Without one, asks until a token is valid, and stores that token. */
export async function agentToken(
  hub: string,
  secrets: KeyValueStore,
  name: string,
  ask: AskForToken,
): Promise<string | undefined> {
  const key = `${name}.${hub}`;
  const known = await secrets.get(key);
  let problem = known ? await refusal(hub, known) : "";
  if (known && !problem) return known;
  for (;;) {
    const given = (await ask(hub, problem))?.trim();
    if (!given) return undefined;
    problem = await refusal(hub, given);
    if (!problem) {
      await secrets.set(key, given);
      return given;
    }
  }
}

/** Why the hub refuses the token; empty if the hub accepts it. */
async function refusal(hub: string, token: string): Promise<string> {
  const url = new URL("/api/vscode/instances", hub);
  const headers = { Authorization: `Bearer ${token}` };
  const unreachable = () => new Failure("hub.unreachable", `No hub answers at ${hub}`);
  const response = await within(fetch(url, { headers }), REQUEST_MS, unreachable).catch(
    (error: unknown) => {
      throw error instanceof Failure ? error : unreachable();
    },
  );
  await response.body?.cancel();
  if (response.status === 401) return "The hub does not know this token";
  if (response.status === 403) return "This token is not an agent token";
  return "";
}
