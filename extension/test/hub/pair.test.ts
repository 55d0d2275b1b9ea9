import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";

import { pair } from "../../src/hub/connection";

let server: Server;
let hub: string;
let answer: unknown;

beforeEach(async () => {
  server = createServer((_, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  hub = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

it("gives a token for the hub that was confirmed, whatever other hub the answer names", async () => {
  answer = { token: "bsc_x", hub: "http://evil.example" };
  expect(await pair(hub, "ABCDEFGH")).toBe("bsc_x");
});

it("refuses an answer without a token", async () => {
  answer = { token: { no: "text" } };
  await expect(pair(hub, "ABCDEFGH")).rejects.toThrow("sent no token");
});
