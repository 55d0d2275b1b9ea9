/** Makes the command line that lists tests or runs some of them. */
import * as fs from "node:fs";
import * as path from "node:path";
import { Failure } from "../common/failure";
import { bashWord } from "../common/bash_word";
import type { TestCommand } from "./test_commands";
import { TITLES } from "./vitest_results";

/** What to run. An empty selection means all tests. */
export interface TestSelection {
  /** A file or directory, absolute. */
  path?: string | undefined;
  /** Ids of tests. */
  tests: readonly string[];
}

const GO_ALL = "./...";

export function runLine(command: TestCommand, { path: target, tests }: TestSelection): string {
  if (target === undefined && !tests.length) return command.command;
  const option = tests.find((each) => !each || each.startsWith("-"));
  if (option !== undefined)
    throw new Failure("tests.not_found", `'${option}' names no test, but would be an option`);
  const file = target === undefined ? undefined : relative(command, target);
  switch (command.results) {
    case "pytest":
      return withWords(command.command, tests.length ? tests : [file ?? "."]);
    case "vitest":
      return vitestLine(command, file, tests);
    case "go":
      return goLine(command, file, tests);
    case "junit":
      throw new Failure(
        "tests.no_command",
        `The test command '${command.name}' can only run all of its tests: its results are 'junit'`,
      );
  }
}

export function listLine(command: TestCommand, target: string | undefined): string {
  const { list, results, name } = command;
  const file = target === undefined ? undefined : relative(command, target);
  const words = file === undefined ? [] : [file];
  if (list) return withWords(list, words);
  const vitest = /^(.*\bvitest)(?:\.mjs)?\b/.exec(command.command)?.[0];
  // `-q` would be added to a `-v` of the project's options, and the list then has another format.
  if (results === "pytest")
    return withWords(`${command.command} --collect-only --verbosity=-1`, words);
  // A file after `--json` would be overwritten with the list.
  if (results === "vitest" && vitest) return `${withWords(`${vitest} list`, words)} --json`;
  if (results === "go") {
    const line = runLine(command, { path: target, tests: [] });
    return line.replace(/\btest -json\b/, "test -json -list .");
  }
  throw new Failure(
    "tests.no_command",
    `The test command '${name}' cannot list its tests; the setting bascule.testCommands has no \`list\` for it`,
  );
}

/** The file of a test's id, relative to the command's directory; undefined for `junit`. */
export function fileOf({ results }: TestCommand, id: string): string | undefined {
  return results === "junit" ? undefined : id.split("::")[0];
}

function vitestLine(
  command: TestCommand,
  file: string | undefined,
  tests: readonly string[],
): string {
  if (!tests.length) return withWords(command.command, [file ?? "."]);
  const files = [...new Set(tests.map((id) => id.split("::")[0] ?? ""))];
  const names = tests.filter((id) => id.includes("::")).map((id) => fullName(id));
  const line = withWords(command.command, files);
  return names.length < tests.length ? line : withWords(line, ["-t", anyOf(names)]);
}

/** The titles of a test in the form that Vitest's option `-t` matches. */
function fullName(id: string): string {
  return id.slice(id.indexOf("::") + 2).replaceAll(TITLES, " ");
}

function goLine(command: TestCommand, file: string | undefined, tests: readonly string[]): string {
  const all = command.command.replace(/\s+\.\/\.\.\.\s*$/, "");
  if (tests.length) {
    const packages = [...new Set(tests.map((id) => goPackage(id.split("::")[0] ?? "")))];
    const names = tests.filter((id) => id.includes("::")).map((id) => id.split("::")[1] ?? "");
    // A package without `::` failed as a whole.
    if (names.length < tests.length) return withWords(all, packages);
    return withWords(all, ["-run", runPattern(names), ...packages]);
  }
  if (!file?.endsWith(".go")) return withWords(all, [goPackage(file ?? ".", GO_ALL)]);
  const names = functionsIn(path.join(command.directory, file));
  return withWords(all, ["-run", anyOf(names), goPackage(path.dirname(file))]);
}

function goPackage(directory: string, below = ""): string {
  if (directory === ".") return below || ".";
  return `./${directory}${below && "/..."}`;
}

/** Several names are selected by their top-level tests, a single one with its subtests. */
function runPattern(names: readonly string[]): string {
  const [name = ""] = names;
  if (names.length > 1) return anyOf([...new Set(names.map((each) => each.split("/")[0] ?? ""))]);
  return name
    .split("/")
    .map((each) => anyOf([each]))
    .join("/");
}

function functionsIn(file: string): string[] {
  const text = fs.readFileSync(file, "utf8");
  return [...text.matchAll(/^func ((?:Test|Example|Fuzz)\w*)\(/gm)].map(([, name = ""]) => name);
}

function anyOf(names: readonly string[]): string {
  const escaped = names.map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return escaped.length === 1 ? `^${escaped[0] ?? ""}$` : `^(${escaped.join("|")})$`;
}

function relative({ directory }: TestCommand, target: string): string {
  const found = path.relative(directory, target) || ".";
  return found.startsWith("-") ? `./${found}` : found;
}

function withWords(line: string, words: readonly string[]): string {
  return [line, ...words.map(bashWord)].join(" ");
}
