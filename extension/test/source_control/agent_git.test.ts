import { beforeEach, expect, test, vi } from "vitest";
import type { PathResolver } from "../../src/actions/paths";

interface Change {
  uri: { fsPath: string };
  originalUri: { fsPath: string };
  renameUri: undefined;
  status: number;
}

const window_: { extension: object | undefined } = { extension: undefined };
vi.mock("vscode", () => ({
  extensions: { getExtension: () => window_.extension },
  Uri: { file: (fsPath: string) => ({ fsPath }) },
}));
const { AgentGit } = await import("../../src/source_control/agent_git");

const resolver = {
  find: (given: string) => Promise.resolve({ real: `/w/${given}`, displayPath: `/w/${given}` }),
} as unknown as PathResolver;

function change(path: string, status: number): Change {
  const uri = { fsPath: path };
  return { uri, originalUri: uri, renameUri: undefined, status };
}

function repository(root: string, changes: Partial<Record<"index" | "tree" | "merge", Change[]>>) {
  const { index = [], tree = [], merge = [] } = changes;
  return {
    rootUri: { fsPath: root },
    state: {
      HEAD: { name: "main", commit: "0123456789abc", ahead: 2 },
      indexChanges: index,
      workingTreeChanges: tree,
      mergeChanges: merge,
    },
    status: () => Promise.resolve(),
    commit: () => Promise.reject(Object.assign(new Error("failed"), { stderr: "hook says no\n" })),
  };
}

function open(...repositories: object[]): void {
  const api = { state: "initialized", repositories, getRepository: () => repositories[0] ?? null };
  const exports = { enabled: true, getAPI: () => api };
  window_.extension = { activate: () => Promise.resolve(exports) };
}

const git = new AgentGit(resolver, () => Promise.resolve());

beforeEach(() => open(repository("/w", { tree: [change("/w/a.ts", 5), change("/w/new", 7)] })));

test("the status has branch and changes as text and as items", async () => {
  const seen = await git.status({});
  expect(seen.content.split("\n")).toEqual([
    "On branch main, at 0123456789, 2 ahead of its upstream, in /w",
    "changed: a.ts (modified)",
    "untracked: new",
  ]);
});

test("without the git extension, or with git off, the capability is missing", async () => {
  window_.extension = undefined;
  const missing = { code: "capability.missing" };
  await expect(git.status({})).rejects.toMatchObject(missing);
  window_.extension = { activate: () => Promise.resolve({ enabled: false }) };
  await expect(git.status({})).rejects.toThrow("git.enabled is false");
});

test("no repository, several and an unknown one are errors that list them", async () => {
  open();
  await expect(git.status({})).rejects.toMatchObject({ code: "git.no_repository" });
  open(repository("/w/a", {}), repository("/w/b", {}));
  await expect(git.status({})).rejects.toThrow("several repositories");
  await expect(git.status({ repository: "c" })).rejects.toThrow(
    "No repository 'c'. There are: /w/a",
  );
  expect((await git.status({ repository: "b" })).extras.repository).toBe("/w/b");
});

test("nothing staged, conflicts and what git says are errors", async () => {
  const commit = { commit_message: "Add a" };
  await expect(git.commit(commit)).rejects.toMatchObject({ code: "git.nothing_staged" });
  await expect(git.commit({ commit_message: " " })).rejects.toMatchObject({
    code: "action.invalid",
  });
  open(repository("/w", { index: [change("/w/a", 0)], merge: [change("/w/b", 18)] }));
  await expect(git.commit(commit)).rejects.toThrow("in conflict");
  open(repository("/w", { index: [change("/w/a", 0)] }));
  await expect(git.commit(commit)).rejects.toThrow("git could not commit: hook says no");
});

test("a path without changes is an error that names files with changes", async () => {
  await expect(git.stage({ paths: ["b.ts"] }, "/w")).rejects.toThrow(
    "'b.ts' has no changes to stage. Files that have: a.ts, new",
  );
  await expect(git.unstage({ paths: ["a.ts"] }, "/w")).rejects.toMatchObject({
    code: "git.no_changes",
  });
});
