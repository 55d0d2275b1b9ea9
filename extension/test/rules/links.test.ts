/** Links in paths: a command may write where its paths really lead. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { decideCommand } from "../../src/rules/decision";
import { realPath } from "../../src/rules/real_path";

let base: string;
let workspace: string;

beforeEach(() => {
  base = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "bascule-links-")));
  workspace = path.join(base, "workspace");
  for (const each of ["workspace/.git/hooks", "workspace/src", "outside/deep"])
    fs.mkdirSync(path.join(base, each), { recursive: true });
});

afterEach(() => fs.rmSync(base, { recursive: true }));

function link(name: string, target: string): void {
  fs.symlinkSync(target, path.join(workspace, name));
}

function verdict(text: string, cwd = workspace): string {
  const rules = { allow: [["echo"]], ask: [], deny: [] };
  return decideCommand(text, rules, { workspaces: [workspace], cwd, realPath }).verdict;
}

test("`..` after a link leads to the parent of its target, as for the kernel", () => {
  link("away", path.join(base, "outside/deep"));
  expect(realPath(`${workspace}/away/../x`)).toBe(`${base}/outside/x`);
  expect(realPath(`${workspace}/missing/../x/y`)).toBe(`${workspace}/x/y`);
});

test("a loop of links ends", () => {
  link("one", "two");
  link("two", "one");
  expect(realPath(`${workspace}/one/x`)).toContain("/x");
});

test.each([
  ["echo > src/file", "allow"],
  ["echo > away/file", "ask"],
  ["echo > hooks/pre-commit", "ask"],
  ["echo > dangling", "ask"],
  ["echo > inner/file", "allow"],
  ["echo > inner/../.git/config", "ask"],
  ["cd inner && echo > file", "allow"],
  ["cd away && echo > file", "ask"],
  ["cd away && cd .. && echo > file", "ask"],
  ["cd hooks && echo > ../config", "ask"],
  ["cd inner && echo > ../ok", "allow"],
  ["for x in 1 2; do cd src; echo > file; done", "ask"],
])("%s: %s", (text, wanted) => {
  link("away", path.join(base, "outside"));
  link("hooks", ".git/hooks");
  link("dangling", ".git/new");
  link("inner", "src");
  expect(verdict(text)).toBe(wanted);
});

test("in a directory that was reached by a link, paths start where the link leads", () => {
  link("hooks", ".git/hooks");
  expect(verdict("echo > ../x", `${workspace}/hooks`)).toBe("ask");
});

test("a workspace that is reached by a link is a workspace", () => {
  const known = path.join(base, "known");
  fs.symlinkSync(workspace, known);
  const rules = { allow: [["echo"]], ask: [], deny: [] };
  const place = { workspaces: [known], cwd: known, realPath };
  expect(decideCommand("echo > src/file", rules, place).verdict).toBe("allow");
  expect(decideCommand("echo > .git/config", rules, place).verdict).toBe("ask");
});

test("a file that the caller names is protected too", () => {
  const rules = { allow: [["echo"]], ask: [], deny: [] };
  const isProtected = (real: string): boolean => real === `${workspace}/rules.toml`;
  const place = { workspaces: [workspace], cwd: workspace, realPath, isProtected };
  link("other", "rules.toml");
  const { verdict: seen, parts } = decideCommand("echo > other", rules, place);
  expect(seen).toBe("ask");
  expect(parts.some(({ mustAsk }) => mustAsk)).toBe(true);
});
