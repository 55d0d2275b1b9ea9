import { expect, test } from "vitest";
import { runningVariable } from "../../src/agent_debugging/launch_variables";

test.each([
  [{ args: ["a ${command:x.y} b"] }, "${command:x.y}"],
  [{ linux: { env: { A: "${input:name}" } } }, "${input:name}"],
  [{ env: { "${command:x}": "1" } }, "${command:x}"],
  [{ program: "${command:x" }, "${command:x"],
  // The file of the active editor may be called `${command:x}.js`.
  [{ program: "${file}" }, "${file}"],
  [{ windows: { args: ["${fileBasenameNoExtension}"] } }, "${fileBasenameNoExtension}"],
  [{ args: ["${relativeFileDirname}"] }, "${relativeFileDirname}"],
  [{ args: ["${selectedText}"] }, "${selectedText}"],
  [{ program: "${workspaceFolder}/${env:NAME}.js", args: ["$file", "{file}"] }, undefined],
])("a variable by which VS Code may run a command is found: %j", (configuration, expected) => {
  expect(runningVariable(configuration)).toBe(expected);
});
