import { expect, test } from "vitest";
import { consentRequest, type RequestContext } from "../../src/actions/consent_request";
import { PathResolver } from "../../src/actions/paths";
import { fullText, protectedPaths } from "../../src/consent/request";
import type { AgentAction } from "../../src/hub/messages";

const context: RequestContext = {
  resolver: new PathResolver({ roots: () => ["/"], isReadable: () => true }),
  cwd: "/tmp",
  hub: "http://hub",
  limitNotes: ["Checkpoints leave out node_modules"],
  restored: () => Promise.resolve(["/tmp/a.txt", "/tmp/.vscode/settings.json"]),
  launch: () => ({ type: "node", program: "/tmp/main.js" }),
  lineOf: ({ action }) =>
    action === "run_tests" ? { line: "pytest a", cwd: "/tmp/project" } : undefined,
  shownArguments: ({ action }) => Promise.resolve(action === "run_cells" ? { code: "1 + 1" } : {}),
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

test.each(["rename_symbol", "apply_code_action", "format", "organize_imports", "edit_cells"])(
  "%s changes the file that it names, and a protected one always asks",
  async (kind) => {
    const asked = await request(kind, { path: ".vscode/tasks.json", line: 1, symbol: "a" });
    expect(protectedPaths(asked)).toEqual(["/tmp/.vscode/tasks.json"]);
    expect(fullText(asked)).toContain("Restore:  Checkpoints leave out node_modules\n");
  },
);

test("a lookup changes nothing, and its question shows all of it", async () => {
  const args = { path: ".vscode/tasks.json", what: "references", line: 3, symbol: "label" };
  const asked = await request("language", args);
  expect(protectedPaths(asked)).toEqual([]);
  const text = fullText(asked);
  expect(text).toContain("look something up in your code (language)");
  for (const part of ["what:\n│ references", "line │ 3", "symbol │ label"])
    expect(text).toContain(part);
});

test("the question about a command shows its places as they were sent", async () => {
  const args = { command: "vscode.open", arguments: [{ $uri: "a.ts" }, { $range: [1, 2, 3, 4] }] };
  const text = fullText(await request("vscode_command", args));
  expect(text).toContain('"$uri": "a.ts"');
  expect(text).toContain('"$range": [');
});

test("the question about a launch configuration shows all of it", async () => {
  const asked = await request("debug_start", { name: "Main" });
  expect(fullText(asked)).toContain('"program": "/tmp/main.js"');
});

test("a request to run tests shows the command line and its directory", async () => {
  const asked = await request("run_tests", { path: "a" });
  expect(asked.cwd).toBe("/tmp/project");
  expect(asked.parts[0]).toEqual({ name: "command", text: "pytest a" });
});

test("a question about cells shows the code that runs", async () => {
  const asked = await request("run_cells", { path: "a.ipynb", cells: [2] });
  expect(asked.parts[0]).toEqual({ name: "code", text: "1 + 1" });
  expect(fullText(asked)).toContain("run cells of a notebook (run_cells)");
});
