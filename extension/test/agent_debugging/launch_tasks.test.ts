import { expect, test } from "vitest";
import { runsTasks, taskNames } from "../../src/agent_debugging/launch_tasks";

const all: Record<string, unknown>[] = [
  { name: "Plain", type: "node" },
  { name: "Built", type: "node", preLaunchTask: "npm: build" },
  // Configurations of two folders.
  { name: "Twice", type: "node" },
  { name: "Twice", type: "node", preLaunchTask: "npm: build" },
  { name: "Both", configurations: ["Plain", "Both"] },
  { name: "Server", type: "node", serverReadyAction: { action: "startDebugging", name: "Built" } },
];
const find = (name: string) => all.filter((each) => each["name"] === name);

test.each([
  ["no task", { type: "node", env: { A: "preLaunchTask" } }, false],
  ["an empty name", { preLaunchTask: "" }, false],
  ["a task before", { preLaunchTask: "build" }, true],
  ["a task after", { postDebugTask: "clean" }, true],
  ["a task at a restart", { preRestartTask: "build" }, true],
  ["a description of a task", { preLaunchTask: { type: "npm", script: "build" } }, true],
  ["a task for one platform", { linux: { preLaunchTask: "build" } }, true],
  ["a task for the platform of a browser elsewhere", { osx: { postDebugTask: "clean" } }, true],
  ["a key with a variable", { "pre${env:NONE}LaunchTask": "build" }, true],
  ["parts without a task", { configurations: ["Plain", { name: "Both" }, null] }, false],
  ["a part with a task", { configurations: ["Plain", "Built"] }, true],
  ["a part in another folder", { configurations: [{ name: "Twice", folder: "other" }] }, true],
  ["a part that VS Code may find elsewhere", { configurations: ["Missing"] }, true],
  ["a part that starts another one", { configurations: ["Server"] }, true],
  ["a server's page", { serverReadyAction: { action: "openExternally" } }, false],
  [
    "a configuration after the start of a server",
    { serverReadyAction: { action: "startDebugging", config: { preLaunchTask: "build" } } },
    true,
  ],
  [
    "one without a task",
    { serverReadyAction: { action: "startDebugging", config: { type: "node" } } },
    false,
  ],
  [
    "a name after the start of a server, for one platform",
    { windows: { serverReadyAction: { action: "startDebugging", name: "Built" } } },
    true,
  ],
])("whether a configuration runs tasks is known: %s", (_, configuration, expected) => {
  expect(runsTasks(configuration, find)).toBe(expected);
});

test("only plain names of tasks are names", () => {
  expect(taskNames({ preLaunchTask: "npm: build", postDebugTask: "clean" })).toEqual([
    "npm: build",
    "clean",
  ]);
  expect(taskNames({ preLaunchTask: "${defaultBuildTask}", postDebugTask: { type: "x" } })).toEqual(
    [],
  );
});
