import { expect, test, vi } from "vitest";
import { Consent, type ConsentSettings } from "../../src/actions/consent";
import type {
  ApprovalAnswer,
  ApprovalAnswered,
  ApprovalRequested,
  Asked,
} from "../../src/hub/contract";

const never = new AbortController().signal;

function action(kind: string, args: object = {}): Asked {
  return { id: "1", action: kind, args, agent: "Ann" } as unknown as Asked;
}

function consent(settings: Partial<ConsentSettings> = {}) {
  const asked: ApprovalRequested[] = [];
  const told: ApprovalAnswered[] = [];
  const admitted = new Set<string>();
  const made = new Consent({
    isTrusted: () => true,
    rules: () => ({}),
    admitted,
    ask: () => new Promise(() => undefined),
    publish: (question) => asked.push(question),
    publishAnswer: (answered) => told.push(answered),
    ...settings,
  });
  return { consent: made, asked, told, admitted };
}

const says = (answer: ApprovalAnswer) => ({ ask: () => Promise.resolve(answer) });

test("nothing is done in a workspace that is not trusted, whatever the rules say", async () => {
  const { consent: made } = consent({ isTrusted: () => false, rules: () => ({ "*": "allow" }) });
  await expect(made.admit(action("read"), never)).rejects.toMatchObject({
    code: "workspace.untrusted",
  });
});

test("a rule for the kind comes before the rule for all", async () => {
  const { consent: made, asked } = consent({ rules: () => ({ "*": "allow", run: "deny" }) });
  await made.admit(action("read"), never);
  await expect(made.admit(action("run"), never)).rejects.toMatchObject({ code: "consent.denied" });
  expect(asked).toEqual([]);
});

test("allowed once is asked again, allowed in the workspace is not", async () => {
  const once = consent(says("once"));
  await once.consent.admit(action("run"), never);
  await once.consent.admit(action("run"), never);
  expect(once.asked).toHaveLength(2);
  const always = consent(says("workspace"));
  await always.consent.admit(action("run"), never);
  await always.consent.admit(action("write", { path: "a" }), never);
  expect(always.asked).toHaveLength(1);
  expect([...always.admitted]).toEqual(["Ann"]);
});

test("a denial is told to the agent and to the hub", async () => {
  const { consent: made, told } = consent(says("deny"));
  await expect(made.admit(action("run"), never)).rejects.toMatchObject({ code: "consent.denied" });
  expect(told).toMatchObject([{ answer: "deny", by: "window" }]);
});

test.each([
  ["write", { path: ".vscode/tasks.json" }],
  ["edit", { path: "a/.vscode/x", command: "create" }],
  ["write", { path: "../x.code-workspace" }],
])("%s of %o asks though everything is allowed", async (kind, args) => {
  const { consent: made, asked } = consent({ ...says("once"), rules: () => ({ "*": "allow" }) });
  await made.admit(action(kind, args), never);
  expect(asked).toHaveLength(1);
});

test("an answer from elsewhere counts, and is not told back", async () => {
  const { consent: made, asked, told } = consent();
  const waiting = made.admit(action("run", { command: "make\nall" }), never);
  expect(asked).toMatchObject([{ agent: "Ann", kind: "run", summary: "run make" }]);
  made.answered({ id: asked[0]?.id ?? "", answer: "once", by: "a page" });
  await waiting;
  expect(told).toEqual([]);
});

test("no answer in time is a no", async () => {
  const { consent: made, told } = consent({ patienceMs: 10 });
  await expect(made.admit(action("run"), never)).rejects.toThrow("nobody answered in time");
  expect(told).toMatchObject([{ answer: "deny", by: "time" }]);
});

test("a question waits for two minutes, and says until when", async () => {
  vi.useFakeTimers();
  try {
    const { consent: made, asked, told } = consent();
    const waiting = made.admit(action("run"), never);
    const denied = expect(waiting).rejects.toMatchObject({ code: "consent.denied" });
    expect(Date.parse(asked[0]?.expires ?? "") - Date.now()).toBe(120_000);
    await vi.advanceTimersByTimeAsync(119_999);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await denied;
  } finally {
    vi.useRealTimers();
  }
});

test("cancelling ends the question", async () => {
  const controller = new AbortController();
  let closed = false;
  const { consent: made } = consent({
    ask: (_, signal) => {
      signal.addEventListener("abort", () => (closed = true));
      return new Promise(() => undefined);
    },
  });
  const waiting = made.admit(action("run"), controller.signal);
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ code: "action.cancelled" });
  expect(closed).toBe(true);
});
