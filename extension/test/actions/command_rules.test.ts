/** Rules for commands in a window: files of rules, shells and questions together. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CommandReviewer } from "../../src/actions/command_rules";
import { Consent, type Refusal } from "../../src/actions/consent";
import { Questions } from "../../src/consent/questions";
import { partsOf } from "../../src/consent/request";
import { RuleSources, WORKSPACE_FILE } from "../../src/consent/rule_sources";
import type { AgentAction, ApprovalAnswer, ApprovalRequested } from "../../src/hub/messages";
import type { ShellState } from "../../src/terminal/premise";
import { until } from "../common/until";

const never = new AbortController().signal;
const denied = { code: "consent.denied" };

let base: string;
let workspace: string;
let person: string;

beforeEach(() => {
  base = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "bascule-window-")));
  workspace = path.join(base, "workspace");
  person = path.join(base, "rules.toml");
  fs.mkdirSync(path.join(workspace, ".git"), { recursive: true });
});

afterEach(() => fs.rmSync(base, { recursive: true }));

let ids = 0;

function command(text: string, args: object = {}, kind = "run"): AgentAction {
  const id = String(++ids);
  const given = { command: text, ...args };
  return { id, action: kind, args: given, agent: "Ann", agent_id: "a1" } as unknown as AgentAction;
}

/** The command lines of actions that run tests. */
const lines = new WeakMap<object, string>();

function testAction(kind: "list_tests" | "run_tests", args: object, line: string): AgentAction {
  const id = String(++ids);
  const action = { id, action: kind, args, agent: "Ann", agent_id: "a1" } as unknown as AgentAction;
  lines.set(action, line);
  return action;
}

/** A window whose shells are in `state`, if they have one. */
function window_(
  options: { state?: Partial<ShellState>; canInspect?: boolean; timeoutMs?: number } = {},
) {
  const asked: ApprovalRequested[] = [];
  const refused: Refusal[] = [];
  const admitted = new Set<string>();
  const stopped = { value: false };
  const settings: { run?: "allow" } = {};
  const shellNames = new Set<string>();
  const sources = new RuleSources({
    personFile: person,
    folders: () => [workspace],
    onProblem: () => undefined,
  });
  const cwd = { value: workspace };
  const reviewer = new CommandReviewer({
    sources,
    folders: () => [workspace],
    nameOf: ({ agent }) => agent,
    lineOf: (action) => {
      const line = lines.get(action);
      return line === undefined ? undefined : { line, cwd: workspace };
    },
    startsTasks: ({ args }) => (args as { name?: string }).name === "With a task",
    shells: {
      canInspect: options.canInspect ?? true,
      cwd: () => cwd.value,
      has: (_, name) => shellNames.has(name ?? "main"),
      inspect: (_, __, names) =>
        Promise.resolve(
          options.state && {
            cwd: workspace,
            directory: workspace,
            flags: "himB",
            options: ["checkwinsize"],
            hasCdPath: false,
            types: new Map(names.map((name) => [name, "file"])),
            ...(options.state as object),
          },
        ),
    },
  });
  const questions = new Questions(() => undefined, options.timeoutMs);
  const consent = new Consent({
    isTrusted: () => true,
    rules: () => settings,
    admitted: {
      has: (key) => admitted.has(key),
      add: (key) => admitted.add(key),
      isStopped: () => stopped.value,
    },
    keyOf: ({ agent_id }) => agent_id,
    describe: (action) => {
      const { action: kind, agent, args } = action;
      const line = lines.get(action);
      return Promise.resolve({
        kind,
        requester: { name: agent, hub: "hub" },
        cwd: workspace,
        paths: [],
        parts: partsOf({ ...(args as object), ...(line ? { command: line } : {}) }),
      });
    },
    commands: {
      review: (action) => reviewer.review(action),
      confirm: (action, review) => reviewer.confirm(action, review),
      readsOutput: (action) => reviewer.readsOutput(action),
      cannotJudge: (action) => reviewer.cannotJudge(action),
      startsTasks: () => false,
      countUsedRules: (review) => reviewer.countUsedRules(review),
      allowAlways: (action, rules) => sources.add({ rules, agent: action.agent, why: "asked" }),
      rulesFile: person,
    },
    questions,
    publish: (question) => asked.push(question),
    publishAnswer: () => undefined,
    onRefused: (_, why) => refused.push(why),
  });
  const say = (answer: ApprovalAnswer): void => {
    questions.onChanged.listen(() =>
      questions
        .list()
        .forEach(({ id }) => queueMicrotask(() => questions.answer(id, answer, "window"))),
    );
  };
  const admit = (action: AgentAction, arrived?: number) => consent.admit(action, never, arrived);
  const parts = { consent, sources, questions, asked, refused, admitted, stopped, settings };
  return { ...parts, cwd, shellNames, say, admit };
}

function rules(text: string): void {
  fs.writeFileSync(person, text);
}

test("a command that a rule allows runs without a question, with a premise", async () => {
  rules('[[allow]]\nrun = ["git diff"]\n');
  const { admit, asked, sources } = window_();
  const premise = await admit(command("git diff HEAD && cd .git"));
  expect(premise).toEqual({
    cwd: workspace,
    names: ["git", "cd", "command_not_found_handle"],
  });
  expect(asked).toEqual([]);
  const [rule] = sources.current().rules;
  expect(rule && sources.countOf(rule)).toBe(1);
});

test("rules judge the command line of tests, in the directory where it runs", async () => {
  rules('[[allow]]\nrun = ["pytest"]\n');
  const { admit, asked } = window_();
  const tests = () => testAction("run_tests", { path: "tests" }, "pytest tests");
  expect(await admit(tests())).toMatchObject({ cwd: workspace });
  expect(asked).toEqual([]);

  rules('[[deny]]\nrun = ["pytest"]\n');
  await expect(admit(tests())).rejects.toMatchObject({ code: "rule.denied" });
});

test("a deny rule refuses with its words, its place and its reason, whoever was admitted", async () => {
  rules('[[deny]]\nrun = ["git push"]\nwhy = "Push yourself"\n');
  const { admit, admitted, settings, asked, refused } = window_();
  admitted.add("a1");
  settings.run = "allow";
  const wanted = `the rule 'git push' (${person}:1) denies it: Push yourself`;
  await expect(admit(command("cd src && git push origin"))).rejects.toMatchObject({
    code: "rule.denied",
    message: expect.stringContaining(wanted) as string,
  });
  expect([asked, refused]).toEqual([[], ["rules"]]);
});

test("the question marks the part that asks, and lists parts, rules and answers", async () => {
  rules('[[allow]]\nrun = ["git diff"]\n');
  const { admit, asked, questions, say } = window_();
  say("deny");
  const text = "git diff && npm test\tall; bash x.sh";
  await expect(admit(command(text))).rejects.toMatchObject(denied);
  expect(asked[0]).toMatchObject({
    choices: ["once", "always", "workspace", "deny"],
    parts: [
      { text: "git diff", verdict: "allow" },
      { text: "npm test⇥all", verdict: "ask", reason: "No rule matches." },
      { text: "bash x.sh", verdict: "ask" },
    ],
    proposals: [{ rule: ["npm", "test"], text: "npm test" }],
  });
  expect(asked[0]?.detail).toContain(
    "│ git diff && npm test⇥all; bash x.sh\n" + "              ^^^^^^^^^^^^  ^^^^^^^^^\n",
  );
  expect(asked[0]?.detail).toContain("│ npm test⇥all\n    No rule matches.\n");
  expect(asked[0]?.detail).toMatch(/"Always" adds these rules to [^]*:\n {4}npm test\n/);
  expect(questions.list()).toEqual([]);
});

test("a long text that asks as a whole has no marks, and is published whole", async () => {
  const { admit, asked, say } = window_();
  say("deny");
  await expect(admit(command("echo harmless\n".repeat(7000) + "x"))).rejects.toMatchObject(denied);
  expect(asked[0]?.is_whole).toBe(true);
  expect(asked[0]?.detail).not.toContain("^");
});

test.each(["bash x.sh", "git", "python3 x.py", "sudo", "$x", "'a b' c"])(
  "no rule is offered for %s",
  async (text) => {
    const { admit, asked, say } = window_();
    say("once");
    await admit(command(text));
    expect(asked[0]).toMatchObject({ proposals: [], choices: ["once", "workspace", "deny"] });
  },
);

test("always stores rules for this agent, and the next same command is not asked about", async () => {
  rules("# mine\n");
  const { admit, asked, say } = window_();
  say("always");
  await admit(command("git diff | npm test"));
  await admit(command("npm test --watch; git diff HEAD~1"));
  expect(asked).toHaveLength(1);
  await admit({ ...command("npm test"), agent: "Bob", agent_id: "b1" });
  expect(asked).toHaveLength(2);
  expect(fs.readFileSync(person, "utf8")).toMatch(/^# mine\n[^]*agent = "Ann"/);
});

test("always can be answered on the hub's page, and only if it was offered", async () => {
  const { admit, asked, consent, questions } = window_();
  const first = admit(command("npm test"));
  await until(() => asked.length === 1);
  consent.answered({ id: asked[0]?.id ?? "", answer: "always", by: "page" });
  await first;
  expect(fs.readFileSync(person, "utf8")).toContain("npm test");
  void admit(command("bash script.sh"));
  await until(() => asked.length === 2);
  consent.answered({ id: asked[1]?.id ?? "", answer: "always", by: "page" });
  expect(questions.list()).toHaveLength(1);
});

test("an agent without an allow rule is asked about every command, however harmless", async () => {
  rules('[[allow]]\nrun = ["ls"]\nagent = "Bob"\n');
  const { admit, asked, say } = window_();
  say("once");
  const texts = ["true", "cd src", "x=1", "> file"];
  for (const text of texts) await admit(command(text));
  expect(asked).toHaveLength(texts.length);
  expect(asked[0]?.detail).toContain("No rule allows this agent anything.");
  for (const text of texts) await admit({ ...command(text), agent: "Bob", agent_id: "b1" });
  expect(asked).toHaveLength(texts.length);
});

test("the workspace cannot allow, but can deny", async () => {
  fs.mkdirSync(path.join(workspace, ".vscode"));
  const text = '[[allow]]\nrun = ["curl"]\n[[deny]]\nrun = ["npm publish"]\n';
  fs.writeFileSync(path.join(workspace, WORKSPACE_FILE), text);
  const { admit, asked, say } = window_();
  say("once");
  await admit(command("curl x"));
  expect(asked).toHaveLength(1);
  await expect(admit(command("npm publish"))).rejects.toMatchObject({ code: "rule.denied" });
});

test("a file with an error makes every command ask, also of an admitted agent", async () => {
  rules('[[allow]]\nrun = ["ls"]\nruns = 1\n');
  const { admit, admitted, asked, say } = window_();
  admitted.add("a1");
  say("once");
  await admit(command("ls"));
  expect(asked[0]?.detail).toContain("A file of rules cannot be read");
  expect(asked[0]?.detail).toContain("there is no `runs`");
  expect(asked[0]?.choices).toEqual(["once", "workspace", "deny"]);
  rules('[[allow]]\nrun = ["ls"]\n');
  await admit(command("ls"));
  expect(asked).toHaveLength(1);
});

test("an admitted agent is asked about what an ask rule fits, and about protected files", async () => {
  rules('[[ask]]\nrun = ["npm install"]\n');
  const { admit, admitted, asked, say } = window_();
  admitted.add("a1");
  say("once");
  for (const free of ["make", "npm test", "python3 -c 1", "echo > out"])
    expect(await admit(command(free))).toBeUndefined();
  expect(asked).toEqual([]);
  for (const text of ["npm install x", "npm $x", "$x install", "echo > .git/config"])
    await admit(command(text));
  expect(asked).toHaveLength(4);
});

test("the user's own file of rules is protected wherever it is", async () => {
  person = path.join(workspace, "mine.toml");
  rules("");
  const { admit, admitted, asked, say } = window_();
  admitted.add("a1");
  say("once");
  await admit(command("echo > mine.toml"));
  expect(asked).toHaveLength(1);
});

test("a function with the name of an allowed command asks", async () => {
  rules('[[allow]]\nrun = ["git diff"]\n');
  const types = new Map([["git", "function"]]);
  const { admit, asked, say } = window_({ state: { types } });
  say("once");
  expect(await admit(command("git diff"))).toBeUndefined();
  expect(asked[0]?.detail).toContain("In this shell it is a function.");
  expect(asked[0]?.proposals).toEqual([]);
});

test("the directory of the shell counts, not the one that was last seen", async () => {
  rules('[[allow]]\nrun = ["echo"]\n');
  const git = path.join(workspace, ".git");
  const { admit, asked, say } = window_({ state: { cwd: git, directory: git } });
  say("once");
  await admit(command("echo x > config"));
  expect(asked).toHaveLength(1);
  expect(await admit(command("echo x"))).toMatchObject({ cwd: git });
});

test("a command with a directory of its own is judged there", async () => {
  rules('[[allow]]\nrun = ["echo"]\n');
  const { admit, asked, say } = window_();
  say("once");
  await admit(command("echo x > config", { cwd: ".git" }));
  await admit(command("echo x > config", { cwd: base }));
  expect(asked).toHaveLength(2);
  expect(await admit(command("echo x", { cwd: ".git", is_static: true }))).toMatchObject({
    cwd: path.join(workspace, ".git"),
  });
});

test("a shell that cannot be asked makes every command ask, but not of an admitted agent", async () => {
  rules('[[allow]]\nrun = ["ls"]\n');
  const { admit, admitted, asked, say } = window_({ canInspect: false });
  say("once");
  await admit(command("ls"));
  expect(asked[0]?.choices).toEqual(["once", "workspace", "deny"]);
  admitted.add("a1");
  await admit(command("ls"));
  expect(asked).toHaveLength(1);
});

test("rules for commands open no other kind of action, and no input", async () => {
  rules('[[allow]]\nrun = ["ls"]\n');
  const { admit, asked, say, shellNames } = window_();
  shellNames.add("main");
  say("once");
  await admit(command("ls", { is_input: true }));
  await admit(command("\n", { is_input: true }));
  await admit(command("C-c", { is_input: true }));
  for (const kind of ["run_ipython", "vscode_command", "bridge", "interrupt"])
    await admit(command("ls", {}, kind));
  expect(asked).toHaveLength(7);
  expect(asked.every(({ parts }) => parts === undefined)).toBe(true);
});

test("reading on in a shell of its own needs no answer", async () => {
  const { admit, asked, say, shellNames } = window_();
  say("once");
  await admit(command(""));
  expect(asked).toHaveLength(1);
  shellNames.add("main");
  await admit(command(" "));
  await admit(command("", { is_input: true }));
  expect(asked).toHaveLength(1);
});

test("after a stop, rules allow nothing until the user says so", async () => {
  rules('[[allow]]\nrun = ["ls"]\n');
  const { admit, asked, stopped, say } = window_();
  stopped.value = true;
  say("once");
  await admit(command("ls"));
  expect(asked).toHaveLength(1);
  stopped.value = false;
  await admit(command("ls"));
  expect(asked).toHaveLength(1);
});

test.each(["once", "deny"] as const)(
  "the same words, sent while they are asked about, are asked once: %s",
  async (answer) => {
    const { admit, asked, questions } = window_();
    const before = performance.now();
    const outcomes = ["npm test", "npm test", "npm build"].map((text) =>
      admit(command(text), before).then(
        () => "done",
        () => "refused",
      ),
    );
    await until(() => questions.list().length === 1);
    questions.answer(questions.list()[0]?.id ?? "", answer, "window");
    await until(() => questions.list()[0]?.summary === "run npm build");
    questions.answer(questions.list()[0]?.id ?? "", "once", "window");
    const seen = answer === "once" ? "done" : "refused";
    expect(await Promise.all(outcomes)).toEqual([seen, seen, "done"]);
    expect(asked).toHaveLength(2);
    // Sent after the answer, the same words ask again.
    void admit(command("npm test"));
    await until(() => asked.length === 3);
  },
);

test("an answer about a list of tests does not admit a run of the same tests", async () => {
  const { admit, asked, questions } = window_();
  const before = performance.now();
  const lists = admit(testAction("list_tests", { path: "tests" }, "pytest --co"), before);
  const runs = admit(testAction("run_tests", { path: "tests" }, "pytest tests"), before);
  await until(() => questions.list().length === 1);
  questions.answer(questions.list()[0]?.id ?? "", "once", "window");
  await lists;
  await until(() => asked.length === 2);
  expect(asked[1]?.kind).toBe("run_tests");
  questions.answer(questions.list()[0]?.id ?? "", "deny", "window");
  await expect(runs).rejects.toMatchObject(denied);
});

test("tests that were planned later with another command line are asked about again", async () => {
  const { admit, asked, questions } = window_();
  const before = performance.now();
  const planned = (line: string) => admit(testAction("run_tests", { failed: true }, line), before);
  const first = planned("pytest a.py");
  const second = planned("pytest b.py");
  await until(() => questions.list().length === 1);
  questions.answer(questions.list()[0]?.id ?? "", "once", "window");
  await first;
  await until(() => asked.length === 2);
  questions.answer(questions.list()[0]?.id ?? "", "deny", "window");
  await expect(second).rejects.toMatchObject(denied);
});

test("nobody answers: the agent gets an error that says so", async () => {
  const { admit, refused } = window_({ timeoutMs: 10 });
  await expect(admit(command("npm test"))).rejects.toThrow("nobody answered in time");
  expect(refused).toEqual(["time"]);
});

test("with rules that ask or deny, code in the debugger asks an admitted agent each time", async () => {
  const start = (args: object): AgentAction =>
    ({ ...command(""), action: "debug_start", args }) as unknown as AgentAction;
  rules('[[deny]]\nrun = ["git push"]\n');
  const judged = window_();
  judged.admitted.add("a1");
  judged.say("once");
  await judged.admit(start({ configuration: { type: "node", program: "push.js" } }));
  expect(judged.asked).toHaveLength(1);
  await judged.admit(start({ name: "Main" })); // the user wrote it
  expect(judged.asked).toHaveLength(1);
  await judged.admit(start({ name: "With a task" })); // an agent may have written package.json
  expect(judged.asked).toHaveLength(2);
  rules('[[allow]]\nrun = ["git diff"]\n');
  const free = window_();
  free.admitted.add("a1");
  await free.admit(start({ configuration: { type: "node", program: "push.js" } }));
  expect(free.asked).toEqual([]);
});

test("with rules that ask or deny, a commit asks an admitted agent each time, for its hooks", async () => {
  const commit = (): AgentAction => command("", { commit_message: "Add a" }, "git_commit");
  rules('[[deny]]\nrun = ["git push"]\n');
  const judged = window_();
  judged.admitted.add("a1");
  judged.say("once");
  await judged.admit(commit());
  await judged.admit(commit());
  expect(judged.asked).toHaveLength(2);
  rules('[[allow]]\nrun = ["git commit"]\n');
  const free = window_();
  free.admitted.add("a1");
  await free.admit(commit());
  expect(free.asked).toEqual([]);
});
