import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AgentAction } from "../../src/hub/messages";
import { observe, type ArgsOf, type ObservationBody } from "../../src/protocol";
import type { RunCommand } from "../../src/terminal/observations";
import { AgentTests, type TestCall } from "../../src/tests/agent_tests";
import type { TestCommandSetting } from "../../src/tests/test_commands";

const call: TestCall = {
  ...{ agent: "Ann", timeout: 60, premise: undefined },
  signal: new AbortController().signal,
};
const PYTEST: TestCommandSetting = { name: "py", command: "pytest", results: "pytest" };
const VITEST: TestCommandSetting = {
  ...{ name: "vi", command: "vitest run --reporter=json", results: "vitest" },
};
const PASSED =
  '<testsuite><testcase classname="test_a" name="test_one" file="test_a.py"/></testsuite>';

let folder: string;

beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "agent-tests-"));
});

afterEach(() => fs.rmSync(folder, { recursive: true }));

interface Ending {
  content?: string;
  exitCode?: number;
  leftOut?: number;
  report?: string;
  reportBytes?: number;
}

/** Test commands that end as told, and the commands that were run. */
function agentTests(setting: TestCommandSetting, ending: Ending = {}) {
  const commands: RunCommand[] = [];
  const tests = new AgentTests({
    folders: () => [folder],
    commands: () => [setting],
    allowed: (path) => Promise.resolve(join(folder, path)),
    directory: () => folder,
    run: (_, command) => {
      commands.push(command);
      const { content = "", exitCode = 0, leftOut = 0, report, reportBytes } = ending;
      const file = command.env?.BASCULE_TEST_REPORT ?? "";
      if (report !== undefined) fs.writeFileSync(file, report);
      if (reportBytes !== undefined) fs.truncateSync(file, reportBytes);
      const metadata = {
        ...{ exit_code: exitCode, left_out_bytes: leftOut, duration: 1 },
        // The log of a static shell is gone when its command has ended.
        ...{ log_path: join(folder, "removed.log"), log_start: 0, log_end: content.length },
      };
      return Promise.resolve(observe("run", content, { metadata } as never) as ObservationBody);
    },
  });
  const planned = async (action: "list_tests" | "run_tests", args: object, agent = "Ann") => {
    const sent = { action, args } as unknown as AgentAction;
    await tests.plan(sent, agent, folder);
    const plan = tests.planOf(sent);
    if (!plan) throw new Error("no plan");
    return plan;
  };
  const list = async (args: ArgsOf<"list_tests"> = {}, more: Partial<TestCall> = {}) =>
    tests.list(args, await planned("list_tests", args), { ...call, ...more });
  const run = async (args: ArgsOf<"run_tests"> = {}, more: Partial<TestCall> = {}) =>
    tests.run(args, await planned("run_tests", args, more.agent), { ...call, ...more });
  return { tests, commands, planned, list, run };
}

test("the premise of an allowed command is checked when its tests start", async () => {
  const premise = { cwd: folder, names: ["pytest"] };
  const { commands, list, run } = agentTests(PYTEST, { content: "a.py::t", report: PASSED });
  await run({}, { premise });
  await list({}, { premise });
  expect(commands.map((command) => command.premise)).toEqual([premise, premise]);
});

test("the whole output of a test command is asked for, because its log is removed", async () => {
  const listed = JSON.stringify([{ name: "adds", file: join(folder, "a.test.ts") }]);
  const { commands, list } = agentTests(VITEST, { content: listed });
  expect((await list()).extras.total).toBe(1);
  expect(commands[0]?.output_limit).toBe(8 << 20);
});

const tooLong = {
  code: "tests.no_results",
  message: expect.stringMatching(
    /printed more than 8,?388,?608 characters, so results are missing: vitest.*Name a `path`/,
  ) as string,
};

test("output that is too long is a clear error, unless the results are in a report", async () => {
  const cut = { content: "[left out]", leftOut: 1 };
  const { list, run } = agentTests(VITEST, cut);
  await expect(list()).rejects.toMatchObject(tooLong);
  await expect(run()).rejects.toMatchObject(tooLong);
  const pytest = agentTests(PYTEST, { ...cut, report: PASSED });
  expect((await pytest.run()).extras.total).toBe(1);
  await expect(pytest.list()).rejects.toMatchObject({ code: "tests.no_results" });
});

test("a list that cannot be read is an error, and no tests only what pytest calls so", async () => {
  const unread = { content: "<Module a.py>\n  <Function test_a>\n1 test collected" };
  await expect(agentTests(PYTEST, unread).list()).rejects.toMatchObject({
    code: "tests.no_results",
    message: expect.stringContaining("listed no tests") as string,
  });
  const none = await agentTests(PYTEST, { content: "no tests collected", exitCode: 5 }).list();
  expect([none.content, none.note]).toEqual(["No tests", undefined]);
  const empty = await agentTests(VITEST, { content: "[]" }).list();
  expect(empty.content).toBe("No tests");
});

test.each([
  { offset: -1, limit: 0 },
  { offset: 0, limit: 0 },
  { offset: -1, limit: 5 },
])("a page of tests that cannot exist is refused before anything runs: %j", async (range) => {
  const { tests, commands, planned } = agentTests(PYTEST, { report: PASSED });
  const refused = {
    code: "file.invalid_range",
    message: `\`offset\` is ${range.offset} and \`limit\` ${range.limit}; they are at least 0 and 1`,
  };
  await expect(planned("list_tests", range)).rejects.toMatchObject(refused);
  await expect(planned("run_tests", range)).rejects.toMatchObject(refused);
  expect(() => tests.results(range, "Ann")).toThrow(expect.objectContaining(refused));
  expect(commands).toEqual([]);
});

test("a report that is too large is a clear error", async () => {
  const { run } = agentTests(PYTEST, { report: PASSED, reportBytes: (64 << 20) + 1 });
  await expect(run()).rejects.toMatchObject({
    code: "tests.no_results",
    message: expect.stringMatching(
      /report .*\.xml has 67108865 bytes.* at most 67108864/,
    ) as string,
  });
});

test("the results of the 20 agents that ran tests last are kept", async () => {
  const { tests, run } = agentTests(PYTEST, { report: PASSED });
  for (let n = 0; n < 20; n += 1) await run({}, { agent: `agent ${n}` });
  await run({}, { agent: "agent 0" });
  await run({}, { agent: "agent 20" });
  expect(tests.results({}, "agent 0").extras.total).toBe(1);
  expect(tests.results({}, "agent 2").extras.total).toBe(1);
  expect(() => tests.results({}, "agent 1")).toThrow("You have not run tests");
});
