import { expect, test } from "vitest";
import { decideCommand } from "../../src/rules/decision";
import { proposeRules } from "../../src/rules/proposals";

const PLACE = { workspaces: ["/home/ann/project"], cwd: "/home/ann/project" };

function proposed(text: string, allow: readonly (readonly string[])[] = []) {
  const decision = decideCommand(text, { allow, ask: [], deny: [["git", "push"]] }, PLACE);
  return proposeRules(decision).map(({ rule }) => rule.join(" "));
}

test.each([
  ["ls -l src", ["ls"]],
  ["git log --oneline | head -3; git log", ["git log", "head"]],
  ["npm run build && npm test", ["npm run build", "npm test"]],
  ["timeout 5 cargo test", ["cargo test"]],
  ["bash -c 'pytest -x'", ["pytest"]],
  ["cat $(which ls)", ["which", "cat"]],
  ["uv run pytest tests", ["uv run pytest"]],
  ["find . -name '*.py'", ["find"]],
])("%j proposes %j", (text, rules) => {
  expect(proposed(text)).toEqual(rules);
  expect(
    decideCommand(text, { allow: rules.map((rule) => rule.split(" ")), ask: [], deny: [] }, PLACE)
      .verdict,
  ).toBe("allow");
});

test.each([
  "git",
  "git --version",
  'git "$x"',
  "npm run",
  "bash script.sh",
  "zsh",
  "python3.11 a.py",
  "node a.js",
  "uv run python a.py",
  "env",
  "sudo make",
  "rm -r build",
  "tar xf a.tar",
  "export A=1",
  "sort -o a b",
  "$x a",
  "cd ..",
  "ls > /etc/passwd; git push",
])("%j proposes nothing", (text) => {
  expect(proposed(text)).toEqual([]);
});

test("only parts without a rule are proposed for", () => {
  expect(proposed("make test && ls && cat a", [["ls"]])).toEqual(["make test", "cat"]);
});
