/** The test commands of a workspace: those of the setting, or those that its files suggest. */
import * as fs from "node:fs";
import * as path from "node:path";
import { Failure } from "../common/failure";
import { textIfReadable } from "../common/file_text";

/** The format of the results. Except for `junit`, it also decides how tests are selected. */
export type ResultFormat = "pytest" | "vitest" | "go" | "junit";

/** An entry of the setting `bascule.testCommands`. */
export interface TestCommandSetting {
  name: string;
  command: string;
  results: ResultFormat;
  /** Where the command runs, relative to the workspace folder. */
  directory?: string;
  /** `junit`: the file that the command writes, relative to its directory. */
  report?: string;
  /** The command that lists tests, if it is not derived from `command`. */
  list?: string;
}

export interface TestCommand extends TestCommandSetting {
  /** Absolute. */
  directory: string;
}

/** Files that show that a folder uses pytest, and what they must contain. */
const PYTEST_FILES: Readonly<Record<string, RegExp>> = {
  "pytest.ini": /(?:)/,
  "conftest.py": /(?:)/,
  "tests/conftest.py": /(?:)/,
  "pyproject.toml": /^\[tool\.pytest/m,
  "tox.ini": /^\[pytest\]/m,
  "setup.cfg": /^\[tool:pytest\]/m,
};
const PYTEST_NAME = /^(?:test_.*|.*_test)\.py$/;
const VITEST_CONFIG = /^vitest\.config\.(?:[mc]?[jt]s)$/;

export function testCommands(
  folders: readonly string[],
  settings: readonly TestCommandSetting[],
): TestCommand[] {
  const found = settings.length
    ? folders.flatMap((folder) => configured(folder, settings))
    : folders.flatMap(detected);
  return found.map((each, n) => ({ ...each, name: uniqueName(found, n) }));
}

/** The named command, or the only one that fits. Fails with the names that there are. */
export function chosenCommand(
  commands: readonly TestCommand[],
  name: string,
  fits: (command: TestCommand) => boolean,
): TestCommand {
  if (!commands.length)
    throw new Failure(
      "tests.no_command",
      "No test command was found for this workspace. It looks for pytest, Vitest and go.mod in the " +
        "workspace folders; the user can name others in the setting bascule.testCommands",
    );
  if (name) {
    const named = commands.find((each) => each.name === name);
    if (named) return named;
    throw new Failure(
      "tests.no_command",
      `There is no test command '${name}'; ${listed(commands)}`,
    );
  }
  const fitting = commands.filter(fits);
  const [only] = fitting.length ? fitting : commands;
  if (only && (fitting.length === 1 || commands.length === 1)) return only;
  throw new Failure("tests.no_command", `Name one of the test commands; ${listed(commands)}`);
}

function listed(commands: readonly TestCommand[]): string {
  return `there are: ${commands.map(({ name, command }) => `${name} (${command})`).join(", ")}`;
}

function configured(folder: string, settings: readonly TestCommandSetting[]): TestCommand[] {
  const commands = settings.map((each) => ({
    ...each,
    directory: path.resolve(folder, each.directory ?? ""),
  }));
  return commands.filter(({ directory }) => fs.existsSync(directory));
}

function detected(folder: string): TestCommand[] {
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  const commands: TestCommand[] = [];
  const add = (name: ResultFormat, command: string): number =>
    commands.push({ name, command, results: name, directory: folder });
  if (hasPytest(folder, names)) add("pytest", `${pythonOf(folder)} -m pytest`);
  if (hasVitest(folder, names)) add("vitest", `${vitestOf(folder)} run --reporter=json`);
  if (names.includes("go.mod")) add("go", "go test -json ./...");
  return commands;
}

function hasPytest(folder: string, names: readonly string[]): boolean {
  const isNamed = Object.entries(PYTEST_FILES).some(
    ([name, pattern]) =>
      pattern.test(textIfReadable(path.join(folder, name)) ?? "\0") &&
      fs.existsSync(path.join(folder, name)),
  );
  const tests = path.join(folder, "tests");
  const inTests =
    fs.existsSync(tests) && fs.statSync(tests).isDirectory() ? fs.readdirSync(tests) : [];
  return isNamed || [...names, ...inTests].some((name) => PYTEST_NAME.test(name));
}

function hasVitest(folder: string, names: readonly string[]): boolean {
  if (names.some((name) => VITEST_CONFIG.test(name))) return true;
  return /"vitest"\s*:/.test(textIfReadable(path.join(folder, "package.json")) ?? "");
}

/** A relative path, so that one rule can match the command line in every workspace. */
function pythonOf(folder: string): string {
  const own = [".venv/bin/python", "venv/bin/python"];
  return own.find((each) => fs.existsSync(path.join(folder, each))) ?? "python3";
}

function vitestOf(folder: string): string {
  const own = "node_modules/.bin/vitest";
  return fs.existsSync(path.join(folder, own)) ? own : "npx vitest";
}

/** If several commands have the same name, all except the first get their folder's name. */
function uniqueName(commands: readonly TestCommand[], n: number): string {
  const { name = "", directory = "" } = commands[n] ?? {};
  const isFirst = commands.findIndex((each) => each.name === name) === n;
  return isFirst ? name : `${name} (${path.basename(directory)})`;
}
