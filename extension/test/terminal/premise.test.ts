/** What bash says about itself before a rule allows a command, in a real bash. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as nodePty from "node-pty";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { PtyModule } from "../../src/terminal/bash";
import {
  namesToInspect,
  redefinedNames,
  shellObjection,
  type ShellState,
} from "../../src/terminal/premise";
import { BashShell } from "../../src/terminal/shell";
import { silent } from "../common/silent";

let directory: string;
let shell: BashShell;

beforeEach(() => {
  directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-")));
  const env = { PATH: process.env.PATH ?? "", HOME: directory, LANG: "C.UTF-8" };
  const limits = { softSeconds: 10, outputLimit: 30_000, logLimit: 1 << 26 };
  shell = new BashShell(
    "main",
    nodePty as unknown as PtyModule,
    { directory, workingDir: directory, env, ...limits },
    silent,
    path.join(directory, "main.log"),
  );
});

afterEach(() => {
  shell.close();
  fs.rmSync(directory, { recursive: true, maxRetries: 10, force: true });
});

async function run(command: string, names?: string[]): Promise<string> {
  const premise = names && { cwd: directory, names: namesToInspect(names) };
  return (await shell.run({ command, premise })).content;
}

async function state(...names: string[]): Promise<Exclude<ShellState, string>> {
  const found = await shell.inspect(namesToInspect(names));
  if (!found || found === "unclear") throw new Error(`the shell says: ${found ?? "nothing"}`);
  return found;
}

test("bash is not asked before it has started, or while a command runs", async () => {
  expect(await shell.inspect(["ls"])).toBeUndefined();
  const running = run("read -r line; echo got $line");
  expect(await shell.inspect(["ls"])).toBeUndefined();
  await shell.run({ command: "it", is_input: true });
  await running;
  expect(await shell.inspect(["ls"])).toBeDefined();
});

test("bash tells programs, builtins, functions and unknown names apart", async () => {
  await run("f() { :; }; ./odd() { :; }; mkdir inner && cd inner");
  const found = await state("cat", "cd", "f", "./odd", "nosuch", "-t", "if");
  expect([...found.types.values()]).toEqual([
    ...["file", "builtin", "function", "function", "", "", "keyword", ""],
  ]);
  expect([...redefinedNames(found).keys()]).toEqual(["f", "./odd"]);
  expect(found.cwd).toBe(`${directory}/inner`);
  expect(shellObjection(found)).toBeUndefined();
});

test("asking changes nothing: not the last status, and not under set -eu", async () => {
  await run("set -eu; (exit 3) || status=$?; word=kept");
  await state("nosuch");
  expect(await run("echo $status $word")).toBe("3 kept\n");
  await run("set +e; (exit 7)");
  await state("nosuch");
  expect(await run("echo $?")).toBe("7\n");
});

test("a directory that was reached by a link is known by both names", async () => {
  await run("mkdir real && ln -s real link && cd link");
  const found = await state();
  expect([found.cwd, found.directory]).toEqual([`${directory}/link`, `${directory}/real`]);
  expect(shellObjection(found)).toBeUndefined();
});

test.each([
  ["PWD=/tmp", "directory"],
  ["shopt -s expand_aliases", "Aliases"],
  ["shopt -s extglob", "globs"],
  ["set -k", "-k"],
  ["set -P", "directory"],
  ["CDPATH=/tmp", "CDPATH"],
  ["command_not_found_handle() { echo ran; }", "command_not_found_handle"],
  ["set -x", "does not report"],
])("after %s no text is judged", async (command, reason) => {
  await run(command);
  const found = await shell.inspect(namesToInspect(["ls"]));
  if (!found) throw new Error("bash was not asked");
  expect(shellObjection(found)).toContain(reason);
});

test("aliases are off", async () => {
  await run("alias hi='echo hello'");
  expect(await run("hi")).toContain("command not found");
});

test("a command starts only if its premise holds", async () => {
  expect(await run("echo first", ["echo"])).toBe("first\n");
  expect(await run("echo second", ["echo"])).toBe("second\n");
  await run("echo() { touch made; }");
  await expect(run("echo third", ["echo"])).rejects.toMatchObject({
    code: "consent.denied",
    message: expect.stringContaining("echo is a function") as string,
  });
  expect(fs.existsSync(path.join(directory, "made"))).toBe(false);
  await run("unset -f echo; mkdir sub; cd sub");
  await expect(run("echo fourth", ["echo"])).rejects.toThrow(`its directory is ${directory}/sub`);
  await run("cd ..");
  expect(await run("echo fifth", ["echo"])).toBe("fifth\n");
});

test("a command that waits for another is checked when its turn comes", async () => {
  const moving = shell.run({ command: "read -r line; cd /" });
  const premise = { cwd: directory, names: ["echo"] };
  const waiting = shell.run({ command: "echo here", queue: true, premise });
  const refused = expect(waiting).rejects.toThrow("its directory is /");
  await shell.run({ command: "go", is_input: true });
  await moving;
  await refused;
});

test("a closed shell ends the wait for its answer", async () => {
  await run("true");
  const asked = shell.inspect(["ls"]);
  shell.close();
  expect(await asked).toBe("unclear");
});
