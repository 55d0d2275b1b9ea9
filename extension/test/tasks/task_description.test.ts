import { expect, test } from "vitest";
import type * as vscode from "vscode";
import { shortOutput } from "../../src/common/shown_output";
import {
  describeTask,
  entryName,
  matchersOf,
  matcherSources,
  taskName,
} from "../../src/tasks/task_description";

function task(execution: object | undefined, more: object = {}): vscode.Task {
  const given = { name: "build", source: "Workspace", isBackground: false, problemMatchers: [] };
  return { ...given, execution, scope: { name: "app" }, ...more } as unknown as vscode.Task;
}

test.each([
  [{ commandLine: "make -j2", options: {} }, "make -j2"],
  [{ process: "/bin/echo", args: ["a b", "c"], options: {} }, "/bin/echo 'a b' c"],
  [{ command: "npm", args: ["run", { value: "it's", quoting: 1 }], options: {} }, "npm run it\\'s"],
  [
    { process: "echo", args: ["$HOME", "", "`id`", "a\\b", "!1"], options: {} },
    "echo '$HOME' '' '`id`' 'a\\b' '!1'",
  ],
  [{ process: "A=b", args: ["--c=d"], options: {} }, "'A=b' --c=d"],
  [{ process: "true", args: [], options: { cwd: "/w", env: { A: "1" } } }, "true"],
  [undefined, ""],
])("the command of a task is one line: %j", (execution, expected) => {
  const described = describeTask(task(execution), undefined);
  expect(described.command).toBe(expected);
  expect(described.runsExtensionCode).toBe(false);
});

const [ESCAPE, STRONG, WEAK] = [1, 2, 3];

test.each([
  [[{ value: "$(id)", quoting: ESCAPE }], "echo $(id)"],
  [[{ value: "$(id)", quoting: WEAK }], 'echo "$(id)"'],
  [[{ value: "$(id)", quoting: STRONG }], "echo '$(id)'"],
  [[{ value: "a'; id; '", quoting: STRONG }], "echo 'a'; id; ''"],
  [["a b", "c"], "echo 'a b' c"],
  [["a'; id; 'b c"], "echo 'a'; id; 'b c'"],
  [["'a b'; id; 'c'"], "echo 'a b'; id; 'c'"],
  [["'a b'", "$(id)"], "echo 'a b' $(id)"],
])("a task of a shell is shown as VS Code quotes it: %j", (args, expected) => {
  const described = describeTask(task({ command: "echo", args, options: {} }), undefined);
  expect(described.command).toBe(expected);
});

test("a task's own shell and its own way of quoting are part of its command", () => {
  const quoting = { strong: '"', escape: "^" };
  const options = { executable: "/w/my shell", shellQuoting: quoting };
  const args = ["a b", { value: "c d", quoting: ESCAPE }];
  const command = (more: object) =>
    describeTask(task({ command: "echo", args, options: { ...options, ...more } }), undefined)
      .command;
  expect(command({})).toBe(`'/w/my shell' -c 'echo "a b" c^ d'`);
  expect(command({ shellArgs: ["-x", "-c"] })).toBe(`'/w/my shell' -x -c 'echo "a b" c^ d'`);
});

test("a task with code of an extension says so", () => {
  expect(describeTask(task({ callback: null }), undefined).runsExtensionCode).toBe(true);
});

test("tasks of extensions are named with their source, as VS Code shows them", () => {
  expect(taskName({ name: "build", source: "npm" })).toBe("npm: build");
  expect(taskName({ name: "build", source: "Workspace" })).toBe("build");
  expect(taskName({ name: "all", source: "$composite" })).toBe("all");
  expect(entryName({ type: "npm", script: "build" })).toBe("npm: build");
  expect(entryName({ type: "npm", script: "build", label: "mine" })).toBe("mine");
  expect(entryName({ type: "shell" })).toBe("");
});

test("dependencies are read from the entry in tasks.json", () => {
  const entry = { dependsOn: ["one", { type: "npm", script: "two" }, 3] };
  expect(describeTask(task(undefined), entry).dependsOn).toEqual(["one", "npm: two"]);
  expect(describeTask(task(undefined), { dependsOn: "one" }).dependsOn).toEqual(["one"]);
});

test("problem matchers have a source, none, or an unknown one", () => {
  const contributed = new Map([
    ["$tsc", "ts"],
    ["$plain", null],
  ]);
  const sources = (...matchers: unknown[]) => {
    const found = matcherSources(matchers, contributed);
    return found && [...found];
  };
  expect(sources()).toEqual([]);
  expect(sources("$tsc", "$eslint-stylish", "$plain")).toEqual(["ts", "eslint", null]);
  expect(sources({ source: "mine" }, { owner: "o" }, { base: "$tsc" })).toEqual([
    "mine",
    null,
    "ts",
  ]);
  expect(sources("$tsc", "$unheard-of")).toBe(undefined);
  expect(matchersOf({ problemMatcher: "$tsc" })).toEqual(["$tsc"]);
  expect(matchersOf({ problemMatcher: [] })).toEqual([]);
});

test("the middle of a long output is left out", () => {
  expect(shortOutput("abc", 3)).toEqual({ text: "abc", isCut: false });
  expect(shortOutput("abcdefgh", 4).text).toBe("ab\n[4 characters left out]\ngh");
  expect(shortOutput("abcd", 0).text).toBe("\n[4 characters left out]\n");
  expect(shortOutput("abc", 3, 7)).toEqual({
    text: "[7 characters left out]\nabc",
    isCut: true,
  });
});
