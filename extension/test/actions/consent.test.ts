import { expect, test, vi } from "vitest";
import { Consent, type ConsentSettings, type Refusal } from "../../src/actions/consent";
import { Questions } from "../../src/consent/questions";
import { partsOf, type RequestPath } from "../../src/consent/request";
import type {
  ApprovalAnswer,
  ApprovalAnswered,
  ApprovalRequested,
  AgentAction,
} from "../../src/hub/messages";
import { until } from "../common/until";

const never = new AbortController().signal;

function action(kind: string, args: object = {}, agent_id = "ann"): AgentAction {
  return { id: "1", action: kind, args, agent: "Ann", agent_id } as unknown as AgentAction;
}

/** Where each path leads: itself, unless `links` says otherwise. */
function consent(
  settings: Partial<ConsentSettings> & { links?: Record<string, string>; timeoutMs?: number } = {},
) {
  const { links = {}, timeoutMs, ...rest } = settings;
  const asked: ApprovalRequested[] = [];
  const told: ApprovalAnswered[] = [];
  const refused: Refusal[] = [];
  const admitted = new Set<string>();
  const stopped = { value: false };
  const questions = new Questions(() => undefined, timeoutMs);
  const made = new Consent({
    isTrusted: () => true,
    rules: () => ({}),
    admitted: {
      has: (key) => admitted.has(key),
      add: (key) => admitted.add(key),
      isStopped: () => stopped.value,
    },
    keyOf: ({ agent_id }) => (agent_id ? `hub ${agent_id}` : undefined),
    describe: ({ action: kind, agent, args }) => {
      const { path } = args as { path?: string };
      const paths: RequestPath[] = path
        ? [{ given: path, real: links[path] ?? path, isWritten: kind !== "read" }]
        : [];
      const requester = { name: agent, hub: "hub" };
      return Promise.resolve({
        kind,
        requester,
        cwd: "",
        paths,
        parts: partsOf(args as Record<string, unknown>),
      });
    },
    commands: {
      review: () => undefined,
      confirm: (_, review) => Promise.resolve(review),
      readsOutput: () => false,
      cannotJudge: () => false,
      startsTasks: ({ args }) => (args as { name?: string }).name === "With a task",
      countUsedRules: () => undefined,
      allowAlways: () => Promise.resolve(),
      rulesFile: "/rules.toml",
    },
    questions,
    publish: (question) => asked.push(question),
    publishAnswer: (answered) => told.push(answered),
    onRefused: (_, why) => refused.push(why),
    ...rest,
  });
  const say = (answer: ApprovalAnswer): void => {
    questions.onChanged.listen(() =>
      questions
        .list()
        .forEach(({ id }) => queueMicrotask(() => questions.answer(id, answer, "window"))),
    );
  };
  return { consent: made, asked, told, refused, admitted, questions, stopped, say };
}

const denied = { code: "consent.denied" };

test("nothing is done in a workspace that is not trusted, and the user is told", async () => {
  const { consent: made, refused } = consent({
    isTrusted: () => false,
    rules: () => ({ "*": "allow" }),
  });
  await expect(made.admit(action("read"), never)).rejects.toMatchObject({
    code: "workspace.untrusted",
  });
  expect(refused).toEqual(["untrusted"]);
});

test("a rule for the kind comes before the rule for all", async () => {
  const {
    consent: made,
    asked,
    refused,
  } = consent({
    rules: () => ({ "*": "allow", run: "deny" }),
  });
  await made.admit(action("read"), never);
  await expect(made.admit(action("run"), never)).rejects.toMatchObject(denied);
  expect([asked, refused]).toEqual([[], ["settings"]]);
});

test("allowed once is asked again, allowed in the workspace is not", async () => {
  const once = consent();
  once.say("once");
  await once.consent.admit(action("run"), never);
  await once.consent.admit(action("run"), never);
  expect(once.asked).toHaveLength(2);
  const always = consent();
  always.say("workspace");
  await always.consent.admit(action("run"), never);
  await always.consent.admit(action("write", { path: "/a" }), never);
  expect(always.asked).toHaveLength(1);
  expect([...always.admitted]).toEqual(["hub ann"]);
});

test("a new token with an old name is asked about, and one without an id always is", async () => {
  const { consent: made, asked, say } = consent();
  say("workspace");
  await made.admit(action("run"), never);
  await made.admit(action("run", {}, "another"), never);
  expect(asked).toHaveLength(2);
  await made.admit(action("run", {}, ""), never);
  await made.admit(action("run", {}, ""), never);
  expect(asked).toHaveLength(4);
});

test("after a stop the settings admit nobody, until the user does", async () => {
  const { consent: made, asked, stopped, say } = consent({ rules: () => ({ "*": "allow" }) });
  say("workspace");
  stopped.value = true;
  await made.admit(action("run"), never);
  await made.admit(action("run"), never);
  expect(asked).toHaveLength(1);
});

test("removing a directory with all it holds is asked each time, unless a rule allows it", async () => {
  const tree = action("rmdir", { path: "src", recursive: true });
  const { consent: made, asked, admitted, say } = consent();
  admitted.add("hub ann");
  say("once");
  await made.admit(action("rmdir", { path: "empty" }), never);
  expect(asked).toHaveLength(0);
  await made.admit(tree, never);
  await made.admit(tree, never);
  expect(asked).toHaveLength(2);
  const ruled = consent({ rules: () => ({ rmdir: "allow" }) });
  await ruled.consent.admit(tree, never);
  expect(ruled.asked).toHaveLength(0);
});

test("a denial is told to the agent and to the hub", async () => {
  const { consent: made, told, say } = consent();
  say("deny");
  await expect(made.admit(action("run"), never)).rejects.toMatchObject(denied);
  expect(told).toMatchObject([{ answer: "deny", by: "window" }]);
});

test.each([
  ["write", { path: "/w/.vscode/tasks.json" }],
  ["edit", { path: "/w/a/.VSCode/x", command: "create" }],
  ["write", { path: "/w/x.code-workspace" }],
  ["write", { path: "/w/.git/hooks/pre-commit" }],
  ["mkdir", { path: "/w/.husky/_" }],
  ["write", { path: "/w/sub/.envrc" }],
  ["write", { path: "/w/bascule.toml" }],
  ["edit", { path: "/home/ann/.config/bascule/rules.toml", command: "create" }],
  ["write", { path: "/w/link" }],
])("%s of %o asks though everything is allowed", async (kind, args) => {
  const {
    consent: made,
    asked,
    say,
  } = consent({
    rules: () => ({ "*": "allow" }),
    links: { "/w/link": "/w/.git/config" },
  });
  say("once");
  await made.admit(action(kind, args), never);
  expect(asked).toHaveLength(1);
  expect(asked[0]?.warnings).toHaveLength(1);
  await made.admit(action("read", args), never);
  expect(asked).toHaveLength(1);
});

test("what was allowed is not done when its path leads elsewhere by then", async () => {
  const links: Record<string, string> = {};
  const { consent: made, questions } = consent({ links });
  const waiting = made.admit(action("write", { path: "/w/notes" }), never);
  await until(() => questions.list().length);
  links["/w/notes"] = "/w/.vscode/tasks.json";
  questions.answer(questions.list()[0]?.id ?? "", "workspace", "window");
  await expect(waiting).rejects.toThrow("leads elsewhere");
});

test("an answer from elsewhere counts, and is not told back", async () => {
  const { consent: made, asked, told } = consent();
  const waiting = made.admit(action("run", { command: "make\nall" }), never);
  await until(() => asked.length);
  expect(asked).toMatchObject([{ agent: "Ann", kind: "run", summary: "run make ⏎ all" }]);
  expect(asked[0]?.detail).toContain("│ make\n│ all\n");
  made.answered({ id: asked[0]?.id ?? "", answer: "once", by: "a page" });
  await waiting;
  expect(told).toEqual([]);
});

test("no answer in time is a no, and the user is told", async () => {
  const { consent: made, told, refused } = consent({ timeoutMs: 10 });
  await expect(made.admit(action("run"), never)).rejects.toThrow("nobody answered in time");
  expect(told).toMatchObject([{ answer: "deny", by: "time" }]);
  expect(refused).toEqual(["time"]);
});

test("a question waits for two minutes, and says until when", async () => {
  vi.useFakeTimers();
  try {
    const { consent: made, asked, told } = consent();
    const waiting = made.admit(action("run"), never);
    const refused = expect(waiting).rejects.toMatchObject(denied);
    await vi.advanceTimersByTimeAsync(0);
    expect(Date.parse(asked[0]?.expires ?? "") - Date.now()).toBe(120_000);
    await vi.advanceTimersByTimeAsync(119_999);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await refused;
  } finally {
    vi.useRealTimers();
  }
});

test("cancelling ends the question here and on the hub", async () => {
  const controller = new AbortController();
  const { consent: made, asked, told, questions } = consent();
  const waiting = made.admit(action("run"), controller.signal);
  await until(() => questions.list().length);
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ code: "action.cancelled" });
  await until(() => told.length);
  expect(questions.list()).toEqual([]);
  expect(told).toMatchObject([{ id: asked[0]?.id, by: "withdrawn" }]);
});

test("an agent asks one thing at a time, and another at the same time", async () => {
  const { consent: made, questions } = consent();
  const waiting = ["ann", "ann", "bob"].map((id) => made.admit(action("read", {}, id), never));
  await until(() => questions.list().length === 2);
  for (const { id } of questions.list()) questions.answer(id, "workspace", "window");
  await Promise.all(waiting);
});

test("open questions are published again for a hub that was restarted", async () => {
  const { consent: made, asked, questions } = consent();
  void made.admit(action("run"), never);
  await until(() => questions.list().length);
  made.publishAgain();
  expect(asked).toHaveLength(2);
  expect(asked[1]).toEqual(asked[0]);
});

test("a long request is published whole, and a longer one cut to what the hub admits", async () => {
  const { consent: made, asked, say } = consent();
  say("deny");
  const publish = async (command: string): Promise<ApprovalRequested> => {
    await expect(made.admit(action("run", { command }), never)).rejects.toMatchObject(denied);
    const [published] = asked.splice(0) as [ApprovalRequested];
    return published;
  };
  const whole = await publish("echo harmless\n".repeat(7000) + "touch evil");
  expect(whole.is_whole).toBe(true);
  expect(whole.detail).toContain("│ touch evil\n");
  expect(whole.detail_length).toBe(whole.detail.length);
  const cut = await publish('"é\\界"\n'.repeat(50_000));
  expect(cut.is_whole).toBe(false);
  expect(cut.detail.endsWith('│ "é\\界"\n')).toBe(true);
  expect(cut.detail_length).toBeGreaterThan(400_000);
  const size = Buffer.byteLength(JSON.stringify(cut));
  expect(size).toBeLessThan(256 << 10);
  expect(size).toBeGreaterThan(230 << 10);
});

test.each([
  ["debug_start", { name: "Main" }],
  ["debug_evaluate", { expression: "1" }],
  ["debug_set_variable", { name: "a", value: "1" }],
  ["debug_stop", { restart: true }],
  ["set_breakpoints", { path: "/a.js", add: [{ line: 1, condition: "f()" }] }],
  ["run_tests", {}],
  ["list_tests", { path: "/a.py" }],
])("debugged code and tests need the consent to commands: %s", async (kind, args) => {
  const refusing = consent({ rules: () => ({ "*": "allow", run: "deny", [kind]: "allow" }) });
  await expect(refusing.consent.admit(action(kind, args), never)).rejects.toMatchObject(denied);
  const asking = consent({ rules: () => ({ "*": "allow", run: "ask" }) });
  asking.say("once");
  await asking.consent.admit(action(kind, args), never);
  expect(asking.asked).toHaveLength(1);
  const stricter = consent({ rules: () => ({ run: "allow", [kind]: "deny" }) });
  await expect(stricter.consent.admit(action(kind, args), never)).rejects.toMatchObject(denied);
  const allowing = consent({ rules: () => ({ run: "allow" }) });
  await allowing.consent.admit(action(kind, args), never);
  expect(allowing.asked).toEqual([]);
});

test.each([
  [{ run: "allow" }, "asked"],
  [{ "*": "ask", run: "allow" }, "asked"],
  [{ "*": "allow" }, "allowed"],
  [{ "*": "allow", run: "ask" }, "asked"],
  [{ "*": "allow", run: "deny" }, "denied"],
  [{ run: "ask", run_task: "allow" }, "allowed"],
  [{ "*": "allow", run_task: "deny" }, "denied"],
] as const)("tasks have a consent of their own: %j", async (rules, expected) => {
  const { consent: made, asked, say } = consent({ rules: () => rules });
  say("once");
  const seen = await made.admit(action("run_task", { name: "build" }), never).then(
    () => (asked.length ? "asked" : "allowed"),
    () => "denied",
  );
  expect(seen).toBe(expected);
});

test.each([
  [{ run: "allow" }, "asked"],
  [{ run: "allow", debug_start: "allow", debug_stop: "allow" }, "asked"],
  [{ "*": "allow" }, "allowed"],
  [{ "*": "allow", run_task: "ask" }, "asked"],
  [{ "*": "allow", run_task: "deny" }, "denied"],
  [{ run: "ask", run_task: "allow" }, "asked"],
  [{ run: "allow", run_task: "allow" }, "allowed"],
  [{ "*": "allow", debug_start: "deny", debug_stop: "deny" }, "denied"],
] as const)("a debug session with a task needs both consents: %j", async (rules, expected) => {
  for (const [kind, args] of [
    ["debug_start", { name: "With a task" }],
    ["debug_stop", { name: "With a task", restart: true }],
  ] as const) {
    const { consent: made, asked, say } = consent({ rules: () => rules });
    say("once");
    const seen = await made.admit(action(kind, args), never).then(
      () => (asked.length ? "asked" : "allowed"),
      () => "denied",
    );
    expect(seen).toBe(expected);
  }
});

test.each([
  [{}, "asked"],
  [{ "*": "allow" }, "allowed"],
  [{ "*": "allow", SECOND: "ask" }, "asked"],
  [{ "*": "allow", SECOND: "deny" }, "denied"],
  [{ "*": "allow", OWN: "allow", SECOND: "deny" }, "denied"],
  [{ "*": "allow", OWN: "deny" }, "denied"],
  [{ OWN: "allow" }, "asked"],
  [{ SECOND: "allow" }, "asked"],
  [{ OWN: "allow", SECOND: "allow" }, "allowed"],
] as const)("commits and cells need the consent to what they run: %j", async (given, expected) => {
  for (const [own, second] of [
    ["git_commit", "run"],
    ["run_cells", "run_ipython"],
  ] as const) {
    const named = Object.entries(given).map(
      ([kind, rule]) => [{ OWN: own, SECOND: second }[kind] ?? kind, rule] as const,
    );
    const { consent: made, asked, say } = consent({ rules: () => Object.fromEntries(named) });
    say("once");
    const seen = await made.admit(action(own), never).then(
      () => (asked.length ? "asked" : "allowed"),
      () => "denied",
    );
    expect(seen).toBe(expected);
  }
});

test("looking and stepping in the debugger follow their own rules", async () => {
  const { consent: made, asked } = consent({ rules: () => ({ "*": "allow", run: "ask" }) });
  for (const kind of ["debug_step", "debug_continue", "debug_state", "debug_stop"])
    await made.admit(action(kind), never);
  await made.admit(action("set_breakpoints", { path: "/a.js", add: [{ line: 1 }] }), never);
  expect(asked).toEqual([]);
});

test("a launch configuration that changed while the user read is not started", async () => {
  let program = "a.js";
  const { consent: made, say } = consent({
    describe: ({ action: kind, agent }) =>
      Promise.resolve({
        kind,
        requester: { name: agent, hub: "hub" },
        cwd: "",
        paths: [],
        parts: [{ name: "configuration", text: program }],
      }),
    publish: () => (program = "b.js"),
  });
  say("once");
  await expect(made.admit(action("debug_start", { name: "Main" }), never)).rejects.toMatchObject(
    denied,
  );
});
