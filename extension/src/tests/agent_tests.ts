/**
 * Lists and runs tests for agents, by test commands.
 *
 * VS Code's API shows an extension only its own tests, so this does not use the Test Explorer. A
 * test command is a command line of the agent: rules and the user decide on it as on `run`.
 * Therefore `plan` builds the command line before consent, and `run` and `list` run exactly that.
 */
import * as fs from "node:fs";
import * as path from "node:path";
import { Failure } from "../common/failure";
import { textIfReadable } from "../common/file_text";
import { ensurePageRange } from "../common/page_range";
import { withoutControls } from "../common/terminal_text";
import type { AgentAction } from "../hub/messages";
import { observe, type ArgsOf, type CmdMetadata, type ObservationBody } from "../protocol";
import type { RunCommand } from "../terminal/observations";
import type { ShellPremise } from "../terminal/premise";
import { fileOf, listLine, runLine } from "./command_lines";
import { parseGo, parseGoList } from "./go_results";
import { parseJUnit } from "./junit";
import { parsePytestList, withLines } from "./listed_tests";
import {
  chosenCommand,
  testCommands,
  type ResultFormat,
  type TestCommand,
  type TestCommandSetting,
} from "./test_commands";
import {
  countsOf,
  countsText,
  inOrder,
  listedText,
  resultText,
  type ListedTest,
  type TestResult,
} from "./test_results";
import { parseVitest, parseVitestList } from "./vitest_results";

/** What an action will run. */
export interface TestPlan {
  command: TestCommand;
  line: string;
  selection: { path?: string | undefined; tests: readonly string[] };
}

export interface AgentTestsSettings {
  folders: () => readonly string[];
  commands: () => readonly TestCommandSetting[];
  /** The absolute path. Fails if the agent may not use it. */
  allowed: (path: string, cwd: string) => Promise<string>;
  /** A private directory for reports. */
  directory: () => string;
  /** Runs a command in a shell of its own, which ends with it. */
  run: (agent: string, command: RunCommand, signal: AbortSignal) => Promise<ObservationBody>;
}

export interface TestCall {
  agent: string;
  timeout: number | undefined;
  /** If rules allowed the command line: what must be true of the shell when it starts. */
  premise: ShellPremise | undefined;
  signal: AbortSignal;
}

interface LastRun {
  plan: TestPlan;
  results: readonly TestResult[];
  exitCode: number;
  duration: number;
}

interface TestCommandEnd {
  output: string;
  /** Whether the command printed more than `MAX_OUTPUT` characters. */
  isCut: boolean;
  exitCode: number;
  duration: number;
  report: string | undefined;
}

/** Seconds after which tests of an action without a timeout are ended. */
const DEFAULT_TIMEOUT = 600;
/** Maximum characters of output. More than a shell's default, because results are read from it. */
const MAX_OUTPUT = 8 << 20;
/** Maximum bytes of a report. */
const MAX_REPORT = 64 << 20;
/** Maximum number of agents whose last run is kept. The oldest run is dropped first. */
const MAX_LAST_RUNS = 20;
/** Characters of output in the message of a failure. */
const OUTPUT_TAIL_CHARS = 3000;
/** Maximum number of entries below a directory that are searched for sources of tests. */
const MAX_SEARCHED_ENTRIES = 5000;
/** Formats whose results are in a report file. The results of other formats are in the output. */
const HAVE_REPORTS: ReadonlySet<ResultFormat> = new Set(["pytest", "junit"]);
/** Exit code of pytest if there are no tests. */
const PYTEST_NO_TESTS = 5;

export class AgentTests {
  private readonly plans = new WeakMap<AgentAction, TestPlan>();
  /** By agent. */
  private readonly lastRuns = new Map<string, LastRun>();
  private reports = 0;

  constructor(private readonly settings: AgentTestsSettings) {}

  /** Decides what a `list_tests` or `run_tests` action will run. Other actions have no plan. */
  async plan(action: AgentAction, agent: string, cwd: string): Promise<void> {
    if (action.action === "run_tests" || action.action === "list_tests")
      ensurePageRange(action.args);
    if (action.action === "run_tests")
      this.plans.set(action, await this.runPlan(action.args, agent, cwd));
    if (action.action === "list_tests")
      this.plans.set(action, await this.listPlan(action.args, cwd));
  }

  planOf(action: AgentAction): TestPlan | undefined {
    return this.plans.get(action);
  }

  async list(
    args: ArgsOf<"list_tests">,
    plan: TestPlan,
    call: TestCall,
  ): Promise<ObservationBody<"list_tests">> {
    const { command, line } = plan;
    const end = await this.execute(plan, call);
    if (end.isCut) throw cutOutput(plan);
    const found = listedIn(command, end);
    if (!found || (!found.length && !isEmptyList(command, end)))
      throw noResults(plan, end, "listed no tests");
    const all = withLines(command.directory, found);
    const { offset = 0, limit = 200 } = args;
    const items = all.slice(offset, offset + limit);
    const names = this.commands().map(({ name }) => name);
    const content = items.length ? items.map(listedText).join("\n") : "No tests";
    const more = { total: all.length, truncated: offset + items.length < all.length };
    const facts = { name: command.name, command: line, items, names, ...more };
    const problem =
      end.exitCode === 0 || isEmptySuite(command, end)
        ? ""
        : `The command ended with exit code ${end.exitCode}, so tests may be missing: ${tail(end.output)}`;
    return withNote(observe("list_tests", content, facts), problem, more, offset + items.length);
  }

  async run(
    args: ArgsOf<"run_tests">,
    plan: TestPlan,
    call: TestCall,
  ): Promise<ObservationBody<"test_results">> {
    const end = await this.execute(plan, call);
    if (end.isCut && !HAVE_REPORTS.has(plan.command.results)) throw cutOutput(plan);
    const parsed = resultsIn(plan.command, end);
    const { tests } = plan.selection;
    const isSelected = tests.length > 0 || plan.selection.path !== undefined;
    // Vitest reports tests that were not selected as skipped.
    const results = parsed?.filter(
      ({ id, outcome }) => outcome !== "skipped" || !tests.length || tests.includes(id),
    );
    if (results && !results.length && isSelected)
      throw new Failure(
        "tests.not_found",
        `No test fits: ${plan.line}\n${tail(end.output)}`.trim(),
      );
    if (!results || (!results.length && end.exitCode !== 0 && !isEmptySuite(plan.command, end)))
      throw noResults(plan, end, "printed no results");
    const { exitCode, duration } = end;
    const last = { plan, results: inOrder(results.map(placed(plan.command))), exitCode, duration };
    this.remember(call.agent, last);
    const isUnexplained = exitCode !== 0 && results.every(({ outcome }) => !isFailure(outcome));
    const problem =
      isUnexplained && !isEmptySuite(plan.command, end)
        ? `The command ended with exit code ${exitCode}, although no test failed: ${tail(end.output)}`
        : "";
    return page(last, last.results, 0, args.limit ?? 100, problem);
  }

  results(args: ArgsOf<"test_results">, agent: string): ObservationBody<"test_results"> {
    ensurePageRange(args);
    const last = this.lastRuns.get(agent);
    if (!last) throw nothingRan();
    const { outcome, query = "", offset = 0, limit = 100 } = args;
    const fitting = last.results.filter(
      (each) => (!outcome || each.outcome === outcome) && each.id.includes(query),
    );
    return page(last, fitting, offset, limit, "", true);
  }

  private remember(agent: string, run: LastRun): void {
    this.lastRuns.delete(agent); // so that `set` moves it to the end
    this.lastRuns.set(agent, run);
    const [oldest] = this.lastRuns.keys();
    if (this.lastRuns.size > MAX_LAST_RUNS && oldest !== undefined) this.lastRuns.delete(oldest);
  }

  private commands(): TestCommand[] {
    return testCommands(this.settings.folders(), this.settings.commands());
  }

  private async runPlan(args: ArgsOf<"run_tests">, agent: string, cwd: string): Promise<TestPlan> {
    const { path: given, tests = [], failed = false, name = "" } = args;
    if ([given ? 1 : 0, tests.length ? 1 : 0, failed ? 1 : 0].reduce((sum, n) => sum + n, 0) > 1)
      throw new Failure("action.invalid", "Give only one of `path`, `tests` and `failed`");
    if (failed) return this.failedPlan(agent);
    const target = given ? await this.target(given, cwd) : undefined;
    const command = chosenCommand(this.commands(), name, (each) => fits(each, target, tests));
    const selection = { path: target, tests };
    return { command, line: runLine(command, selection), selection };
  }

  private failedPlan(agent: string): TestPlan {
    const last = this.lastRuns.get(agent);
    if (!last) throw nothingRan();
    const tests = last.results.filter(({ outcome }) => isFailure(outcome)).map(({ id }) => id);
    if (!tests.length)
      throw new Failure("tests.not_found", "In your last run of tests no test failed");
    const { command } = last.plan;
    const selection = { tests };
    return { command, line: runLine(command, selection), selection };
  }

  private async listPlan(args: ArgsOf<"list_tests">, cwd: string): Promise<TestPlan> {
    const target = args.path ? await this.target(args.path, cwd) : undefined;
    const command = chosenCommand(this.commands(), args.name ?? "", (each) =>
      fits(each, target, []),
    );
    return { command, line: listLine(command, target), selection: { path: target, tests: [] } };
  }

  private async target(given: string, cwd: string): Promise<string> {
    const target = await this.settings.allowed(given, cwd);
    if (!fs.existsSync(target)) throw new Failure("path.not_found", `File not found: ${target}`);
    return target;
  }

  private async execute({ command, line }: TestPlan, call: TestCall): Promise<TestCommandEnd> {
    const { agent, timeout = DEFAULT_TIMEOUT, premise, signal } = call;
    this.reports += 1;
    const own = path.join(this.settings.directory(), `tests-${this.reports}.xml`);
    const given = command.report && path.resolve(command.directory, command.report);
    const report = given ?? own;
    const before = given === undefined ? undefined : statOf(given);
    try {
      const observation = await this.settings.run(
        agent,
        {
          command: line,
          is_static: true,
          cwd: command.directory,
          blocking: true,
          timeout,
          premise,
          output_limit: MAX_OUTPUT,
          env: environmentFor(own),
        },
        signal,
      );
      const { metadata } = observation.extras as { metadata: CmdMetadata };
      const output = withoutControls(observation.content);
      if (metadata.timed_out === "hard")
        throw new Failure(
          "action.timed_out",
          `The tests did not end within ${timeout} seconds and were stopped: ${line}\n${tail(output)}`.trim(),
        );
      const isOld = before !== undefined && statOf(report) === before;
      const text = isOld ? undefined : reportIn(report);
      const { exit_code: exitCode = -1, duration = 0, left_out_bytes: leftOut = 0 } = metadata;
      return { output, isCut: leftOut > 0, exitCode, duration, report: text };
    } finally {
      fs.rmSync(own, { force: true });
    }
  }
}

/** pytest takes options from its environment, so its command line needs none. */
function environmentFor(report: string): Record<string, string> {
  const own = process.env.PYTEST_ADDOPTS;
  const options = `--junitxml='${report}' -o junit_family=xunit1`;
  return {
    PYTEST_ADDOPTS: own ? `${own} ${options}` : options,
    BASCULE_TEST_REPORT: report,
  };
}

function resultsIn(command: TestCommand, end: TestCommandEnd): TestResult[] | undefined {
  switch (command.results) {
    case "pytest":
    case "junit":
      return end.report === undefined ? undefined : parseJUnit(end.report, command.results);
    case "vitest":
      return parseVitest(end.output, command.directory);
    case "go":
      return parseGo(end.output, moduleOf(command.directory));
  }
}

function listedIn(
  command: TestCommand,
  { output, exitCode }: TestCommandEnd,
): ListedTest[] | undefined {
  switch (command.results) {
    case "pytest":
    case "junit":
      return exitCode === 127 ? undefined : parsePytestList(output);
    case "vitest":
      return parseVitestList(output, command.directory);
    case "go":
      return parseGoList(output, moduleOf(command.directory));
  }
}

function isEmptySuite({ results }: TestCommand, { exitCode }: TestCommandEnd): boolean {
  return results === "pytest" && exitCode === PYTEST_NO_TESTS;
}

/** Whether a list without tests means that there are none, and not that it has another format. */
function isEmptyList(command: TestCommand, end: TestCommandEnd): boolean {
  if (isEmptySuite(command, end)) return true;
  return end.exitCode === 0 && (command.results !== "pytest" || !end.output.trim());
}

function isFailure(outcome: TestResult["outcome"]): boolean {
  return outcome === "failed" || outcome === "error";
}

/** Whether a command can run this file, the files in this directory, or these tests. */
function fits(command: TestCommand, target: string | undefined, tests: readonly string[]): boolean {
  const { directory, results } = command;
  if (target === undefined && !tests.length) return true;
  const sources = SOURCES[results];
  if (!sources) return false;
  const files = tests.flatMap((id) => fileOf(command, id) ?? []);
  const named =
    target === undefined ? files.map((each) => path.resolve(directory, each)) : [target];
  return named.every(
    (file) =>
      (file === directory || file.startsWith(`${directory}/`)) &&
      holdsSource(file, sources, { entries: MAX_SEARCHED_ENTRIES }),
  );
}

/** Files that may have tests. */
const SOURCES: Readonly<Record<string, RegExp>> = {
  pytest: /\.py$/,
  vitest: /\.[cm]?[jt]sx?$/,
  go: /\.go$/,
};

/** Whether `file` is a source, or a directory with one. Searches a limited number of entries. */
function holdsSource(file: string, pattern: RegExp, left: { entries: number }): boolean {
  const stats = fs.lstatSync(file, { throwIfNoEntry: false });
  if (!stats?.isDirectory()) return stats !== undefined && pattern.test(file);
  for (const name of fs.readdirSync(file)) {
    if (left.entries <= 0) return false;
    left.entries -= 1;
    if (name === "node_modules" || name.startsWith(".")) continue;
    if (holdsSource(path.join(file, name), pattern, left)) return true;
  }
  return false;
}

function placed({ directory }: TestCommand): (result: TestResult) => TestResult {
  return (result) =>
    result.path === null ? result : { ...result, path: path.resolve(directory, result.path) };
}

function page(
  { plan, results, exitCode, duration }: LastRun,
  fitting: readonly TestResult[],
  offset: number,
  limit: number,
  problem: string,
  showsPassed = false,
): ObservationBody<"test_results"> {
  const counts = countsOf(results);
  const items = fitting.slice(offset, offset + limit);
  const shown = items.filter(({ outcome }) => showsPassed || outcome !== "passed");
  const content = [countsText(counts, duration), ...shown.map(resultText)].join("\n");
  const more = { total: fitting.length, truncated: offset + items.length < fitting.length };
  const { name } = plan.command;
  const facts = { name, command: plan.line, exit_code: exitCode, counts, duration, items, ...more };
  return withNote(observe("test_results", content, facts), problem, more, offset + items.length);
}

function withNote<K extends "list_tests" | "test_results">(
  body: ObservationBody<K>,
  problem: string,
  { total, truncated }: { total: number; truncated: boolean },
  next: number,
): ObservationBody<K> {
  const tool = body.observation === "list_tests" ? "list_tests" : "test_results";
  const rest = truncated ? `${total - next} more of ${total}: ${tool} with offset ${next}` : "";
  const note = [problem, rest].filter(Boolean).join("\n");
  return note ? { ...body, note } : body;
}

function nothingRan(): Failure {
  return new Failure("tests.not_found", "You have not run tests in this window since it started");
}

function noResults({ line, command }: TestPlan, end: TestCommandEnd, what: string): Failure {
  const wanted: Readonly<Record<string, string>> = {
    junit: `JUnit XML in ${command.report ?? "the file $BASCULE_TEST_REPORT"}`,
    pytest: "JUnit XML, as pytest writes",
    vitest: "the JSON of Vitest's reporter `json`",
    go: "the events of `go test -json`",
  };
  const expected =
    what === "printed no results" ? `; expected ${wanted[command.results] ?? ""}` : "";
  return new Failure(
    "tests.no_results",
    `The test command ended with exit code ${end.exitCode} and ${what}${expected}: ${line}\n${tail(end.output)}`.trim(),
  );
}

function cutOutput({ line }: TestPlan): Failure {
  return new Failure(
    "tests.no_results",
    `The command printed more than ${MAX_OUTPUT} characters, so results are missing: ${line}. ` +
      "Name a `path`, so that it prints less",
  );
}

function tail(output: string): string {
  const text = output.trim();
  return text.length > OUTPUT_TAIL_CHARS ? `…${text.slice(-OUTPUT_TAIL_CHARS)}` : text;
}

function moduleOf(directory: string): string {
  const text = textIfReadable(path.join(directory, "go.mod")) ?? "";
  return /^module\s+(\S+)/m.exec(text)?.[1] ?? "";
}

/** Fails with `tests.no_results` if the report is too large. Undefined if there is none. */
function reportIn(file: string): string | undefined {
  const size = fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size > MAX_REPORT)
    throw new Failure(
      "tests.no_results",
      `The report ${file} has ${size} bytes; it may have at most ${MAX_REPORT}. Run fewer tests, or let them print less`,
    );
  return textIfReadable(file);
}

function statOf(file: string): string | undefined {
  const stats = fs.statSync(file, { throwIfNoEntry: false, bigint: true });
  return stats && `${stats.ino} ${stats.mtimeNs}`;
}
