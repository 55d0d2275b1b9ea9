import { expect, test } from "vitest";
import { commandsRunBy } from "../../src/common/nested_commands";

test("a command runs itself, and its arguments are no commands", () => {
  expect(commandsRunBy("undo", [{ commands: ["redo"] }, "x"])).toEqual(["undo"]);
});

test("the commands of runCommands are found in every form and depth", () => {
  const inner = { command: "runCommands", args: { commands: ["c", { command: "d" }] } };
  const commands = ["a", { command: "b", args: "x" }, inner];
  const found = ["a", "b", "runCommands", "c", "d"];
  expect(commandsRunBy("runCommands", [{ commands }])).toEqual(["runCommands", ...found]);
});
