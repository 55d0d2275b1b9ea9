import { expect, test } from "vitest";
import { changeScope, savesDocuments } from "../../src/checkpoints/changing_actions";
import type { AgentAction } from "../../src/hub/messages";

const scope = (action: string, args: object) =>
  changeScope({ action, args } as unknown as AgentAction, (path) => `/folder/${path}`);

test.each(["run", "run_ipython", "vscode_command", "rename_symbol", "apply_code_action"])(
  "%s may change any file",
  (kind) => {
    expect(scope(kind, { command: "x" })).toEqual({});
  },
);

test.each(["write", "edit", "mkdir", "format", "organize_imports"])(
  "%s changes its path, through links",
  (kind) => {
    expect(scope(kind, { path: "a", command: "create" })).toEqual({
      path: "/folder/a",
      followsLinks: true,
    });
  },
);

test.each(["rm", "rmdir"])("%s removes its path, not the target of a link", (kind) => {
  expect(scope(kind, { path: "a" })).toEqual({ path: "/folder/a", followsLinks: false });
});

test.each([
  ["read", { path: "a" }],
  ["list", { path: "a" }],
  ["edit", { path: "a", command: "view" }],
  ["bridge", { request: "vscode/openFile" }],
  ["restore", { checkpoint: 1 }],
  ["language", { what: "references", path: "a" }],
  ["diagnostics", { path: "a" }],
])("%s %j changes no file", (kind, args) => {
  expect(scope(kind, args)).toBeUndefined();
});

test.each(["vscode/applyEdit", "vscode/executeCommand"])("%s may change files", (request) => {
  expect(scope("bridge", { request })).toEqual({});
});

test.each(["rename_symbol", "apply_code_action", "format", "organize_imports"])(
  "a document that %s saves was not saved by the user",
  (kind) => {
    expect(savesDocuments(kind)).toBe(true);
  },
);
