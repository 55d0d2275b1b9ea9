import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { listLine, runLine } from "../../src/tests/command_lines";
import { chosenCommand, testCommands, type TestCommand } from "../../src/tests/test_commands";

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), "tests-"));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const pytest: TestCommand = {
  ...{ name: "pytest", command: "python3 -m pytest", results: "pytest", directory: "/w" },
};
const vitest: TestCommand = {
  ...{ name: "vitest", command: "npx vitest run --reporter=json", results: "vitest" },
  directory: "/w",
};

test("test commands are those that the files of a folder suggest", () => {
  const folder = folderWith({
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    ".venv/bin/python": "",
    "package.json": '{"devDependencies": {"vitest": "3"}}',
    "go.mod": "module example.org/sums\n",
  });
  expect(testCommands([folder], []).map(({ command }) => command)).toEqual([
    ".venv/bin/python -m pytest",
    "npx vitest run --reporter=json",
    "go test -json ./...",
  ]);
  expect(testCommands([folderWith({ "pyproject.toml": "[project]" })], [])).toEqual([]);
  const [named] = testCommands([folderWith({ "test/test_a.py": "", "test_b.py": "" })], []);
  expect(named?.command).toBe("python3 -m pytest");
});

test("the setting replaces detection, and directories that do not exist are skipped", () => {
  const folder = folderWith({ "conftest.py": "", "web/a.ts": "" });
  const web = { name: "web", command: "make web", results: "junit", directory: "web" } as const;
  const other = { ...web, name: "other", directory: "nothing" };
  expect(testCommands([folder], [web, other])).toEqual([
    { ...web, directory: join(folder, "web") },
  ]);
});

test("a command is chosen by its name, or because only this one fits", () => {
  const all = [pytest, vitest];
  expect(chosenCommand(all, "vitest", () => false)).toBe(vitest);
  expect(chosenCommand(all, "", ({ results }) => results === "pytest")).toBe(pytest);
  expect(chosenCommand([vitest], "", () => false)).toBe(vitest);
  expect(() => chosenCommand(all, "", () => true)).toThrow("Name one of the test commands");
  expect(() => chosenCommand(all, "x", () => true)).toThrow("There is no test command 'x'");
  expect(() => chosenCommand([], "", () => true)).toThrow("No test command was found");
});

test("pytest gets ids, quoted only where bash needs it", () => {
  const line = (tests: string[], path?: string) => runLine(pytest, { path, tests });
  expect(line([])).toBe("python3 -m pytest");
  expect(line([], "/w/tests")).toBe("python3 -m pytest tests");
  expect(line([], "/w/-x")).toBe("python3 -m pytest ./-x");
  expect(line(["a.py::t[1]", "b.py::u"])).toBe("python3 -m pytest 'a.py::t[1]' b.py::u");
  expect(line(["a.py::t[it's $(x)]"])).toBe("python3 -m pytest 'a.py::t[it'\\''s $(x)]'");
  expect(() => line(["--co"])).toThrow("'--co' names no test");
  expect(listLine(pytest, "/w/a.py")).toBe("python3 -m pytest --collect-only --verbosity=-1 a.py");
});

test("Vitest gets files and a pattern of titles", () => {
  const one = { tests: ["a.test.ts::sums > adds (one)"] };
  expect(runLine(vitest, one)).toBe(`${vitest.command} a.test.ts -t '^sums adds \\(one\\)$'`);
  const whole = { tests: ["a.test.ts::x", "b.test.ts"] };
  expect(runLine(vitest, whole)).toBe(`${vitest.command} a.test.ts b.test.ts`);
  expect(listLine(vitest, undefined)).toBe("npx vitest list --json");
  // `--json a.test.ts` would write the list to this file.
  expect(listLine(vitest, "/w/a.test.ts")).toBe("npx vitest list a.test.ts --json");
  const script = { ...vitest, command: "node x/vitest.mjs run --reporter=json" };
  expect(listLine(script, undefined)).toBe("node x/vitest.mjs list --json");
});

test("go test gets packages and names of functions", () => {
  const directory = folderWith({ "sub/a_test.go": "func TestA(t *testing.T) {}\nfunc TestB(\n" });
  const command = "go test -json ./...";
  const go: TestCommand = { name: "go", command, results: "go", directory };
  const line = (tests: string[], path?: string) => runLine(go, { path, tests });
  expect(line([])).toBe(command);
  expect(line([], join(directory, "sub"))).toBe("go test -json ./sub/...");
  expect(line([], join(directory, "sub/a_test.go"))).toBe(
    "go test -json -run '^(TestA|TestB)$' ./sub",
  );
  expect(line([".::TestA/two"])).toBe("go test -json -run '^TestA$/^two$' .");
  expect(line(["sub::TestA/two", "sub::TestB"])).toBe("go test -json -run '^(TestA|TestB)$' ./sub");
  expect(line(["sub"])).toBe("go test -json ./sub");
  expect(listLine(go, undefined)).toBe("go test -json -list . ./...");
});

test("other commands run all of their tests only", () => {
  const other: TestCommand = { ...pytest, name: "unit", command: "make unit", results: "junit" };
  expect(runLine(other, { tests: [] })).toBe("make unit");
  expect(() => runLine(other, { tests: ["a"] })).toThrow("'unit' can only run all of its tests");
  expect(() => listLine(other, undefined)).toThrow("has no `list` for it");
  expect(listLine({ ...other, list: "make list" }, undefined)).toBe("make list");
});
