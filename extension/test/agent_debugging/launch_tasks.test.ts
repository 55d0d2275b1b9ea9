import { expect, test } from "vitest";
import { runsTasks, taskNames } from "../../src/agent_debugging/launch_tasks";

const parts: Record<string, Record<string, unknown>> = {
  Plain: { name: "Plain", type: "node" },
  Built: { name: "Built", type: "node", preLaunchTask: "npm: build" },
};
const find = (name: string) => parts[name];

test.each([
  ["no task", { type: "node" }, false],
  ["an empty name", { preLaunchTask: "" }, false],
  ["a task before", { preLaunchTask: "build" }, true],
  ["a task after", { postDebugTask: "clean" }, true],
  ["a description of a task", { preLaunchTask: { type: "npm", script: "build" } }, true],
  ["parts without a task", { configurations: ["Plain", "Missing", null] }, false],
  ["a part with a task", { configurations: ["Plain", "Built"] }, true],
  ["a part in another folder", { configurations: [{ name: "Built", folder: "other" }] }, true],
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
