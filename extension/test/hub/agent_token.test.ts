import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { agentToken } from "../../src/hub/agent_token";

const GOOD = "good";
const WINDOWS = "a window's";

let server: Server;
let hub: string;
let kept: Map<string, string>;
const secrets = {
  get: (name: string) => Promise.resolve(kept.get(name)),
  set: (name: string, value: string) => Promise.resolve(void kept.set(name, value)),
};

beforeEach(async () => {
  kept = new Map();
  server = createServer((request, response) => {
    const token = request.headers.authorization?.replace("Bearer ", "");
    response.writeHead(token === GOOD ? 200 : token === WINDOWS ? 403 : 401).end("[]");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  hub = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => new Promise((closed) => server.close(closed)));

/** Answers one after the other, and what was complained of before each. */
function person(...answers: (string | undefined)[]) {
  const complaints: string[] = [];
  const ask = (_: string, complaint: string) => {
    complaints.push(complaint);
    return Promise.resolve(answers.shift());
  };
  return { ask, complaints };
}

test("it is asked for until the hub takes it, and then kept", async () => {
  const { ask, complaints } = person("wrong", WINDOWS, ` ${GOOD}\n`);
  expect(await agentToken(hub, secrets, "t", ask)).toBe(GOOD);
  expect(complaints).toEqual([
    "",
    "The hub does not know this token",
    "This token is not an agent token",
  ]);
  expect(await agentToken(hub, secrets, "t", person().ask)).toBe(GOOD);
});

test("one that was kept and is no longer good is asked for again", async () => {
  kept.set(`t.${hub}`, "revoked");
  const { ask, complaints } = person(GOOD);
  expect(await agentToken(hub, secrets, "t", ask)).toBe(GOOD);
  expect(complaints).toEqual(["The hub does not know this token"]);
  expect(kept.get(`t.${hub}`)).toBe(GOOD);
});

test("who answers nothing is not asked again, and nothing is kept", async () => {
  expect(await agentToken(hub, secrets, "t", person(undefined).ask)).toBeUndefined();
  expect(kept.size).toBe(0);
});

test("a hub that is not there is said to be, and keeps its token", async () => {
  kept.set("t.http://127.0.0.1:9", GOOD);
  await expect(agentToken("http://127.0.0.1:9", secrets, "t", person().ask)).rejects.toThrow(
    "No hub answers at http://127.0.0.1:9",
  );
  expect(kept.get("t.http://127.0.0.1:9")).toBe(GOOD);
});
