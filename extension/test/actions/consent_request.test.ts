import { expect, test } from "vitest";
import { consentRequest, type RequestContext } from "../../src/actions/consent_request";
import { PathResolver } from "../../src/actions/paths";
import { fullText, protectedPaths } from "../../src/consent/request";
import type { AgentAction } from "../../src/hub/messages";

const context: RequestContext = {
  resolver: new PathResolver({ roots: () => ["/"], isReadable: () => true }),
  cwd: "/tmp",
  hub: "http://hub",
  limits: ["Checkpoints leave out node_modules"],
  restored: () => Promise.resolve(["/tmp/a.txt", "/tmp/.vscode/settings.json"]),
};

const request = (action: string, args: object) =>
  consentRequest({ id: "1", action, args, agent: "ann" } as unknown as AgentAction, context);

test("a restore names the files that it changes, and protected ones always ask", async () => {
  const asked = await request("restore", { checkpoint: 3 });
  expect(asked.paths.map(({ real }) => real)).toEqual(["/tmp/a.txt", "/tmp/.vscode/settings.json"]);
  expect(protectedPaths(asked)).toEqual(["/tmp/.vscode/settings.json"]);
  expect(fullText(asked)).toContain("Changes:  /tmp/a.txt\n");
});

test("a dry run changes nothing", async () => {
  expect((await request("restore", { checkpoint: 3, dry_run: true })).paths).toEqual([]);
});

test("a question says what checkpoints leave out, if the action may change files", async () => {
  const line = "Restore:  Checkpoints leave out node_modules\n";
  expect(fullText(await request("run", { command: "make" }))).toContain(line);
  expect(fullText(await request("write", { path: "a", content: "" }))).toContain(line);
  expect(fullText(await request("read", { path: "a" }))).not.toContain("Restore:");
});
