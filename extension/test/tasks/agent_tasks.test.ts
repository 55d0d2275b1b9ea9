import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AgentAction } from "../../src/hub/messages";
import { FakeEvent } from "./fake_tasks";

interface TaskEvent {
  execution: object;
  processId?: number;
  exitCode?: number;
}

const task = {
  name: "watch",
  source: "Workspace",
  isBackground: true,
  problemMatchers: [],
  execution: { commandLine: "make watch", options: {} },
};
const execution = { task };
const [processStarted, ended] = [new FakeEvent<TaskEvent>(), new FakeEvent<TaskEvent>()];
const problemsChanged = new FakeEvent<{ uris: object[] }>();
const silent = new FakeEvent<object>();
vi.mock("vscode", () => ({
  tasks: {
    taskExecutions: [],
    fetchTasks: () => Promise.resolve([task]),
    executeTask: () => Promise.resolve(execution),
    onDidStartTask: silent.subscribe,
    onDidStartTaskProcess: processStarted.subscribe,
    onDidEndTaskProcess: silent.subscribe,
    onDidEndTask: ended.subscribe,
  },
  window: { onDidStartTerminalShellExecution: silent.subscribe },
  languages: { onDidChangeDiagnostics: problemsChanged.subscribe, getDiagnostics: () => [] },
  workspace: { getConfiguration: () => ({ get: () => undefined }) },
  extensions: { all: [] },
}));
const { AgentTasks } = await import("../../src/tasks/agent_tasks");

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Runs the task. The function that it returns says after how many milliseconds it was answered. */
function runTask(): { answeredAfter: () => number | undefined } {
  const started = performance.now();
  let after: number | undefined;
  const action = { action: "run_task", args: { name: "watch" } } as unknown as AgentAction;
  const call = { until: started + 600_000, signal: new AbortController().signal };
  const tasks = new AgentTasks(() => undefined);
  void tasks.run({ name: "watch" }, action, call).then(() => {
    after = performance.now() - started;
  });
  return { answeredAfter: () => after };
}

test("a background task is answered when it was quiet for two seconds", async () => {
  const { answeredAfter } = runTask();
  await vi.advanceTimersByTimeAsync(3000);
  processStarted.send({ execution, processId: 7 });
  await vi.advanceTimersByTimeAsync(1500);
  problemsChanged.send({ uris: [] });
  await vi.advanceTimersByTimeAsync(1900);
  expect(answeredAfter()).toBe(undefined);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(answeredAfter()).toBe(6500);
});

test("a task without a process is answered after fifteen seconds, or when it ends", async () => {
  const silently = runTask();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(silently.answeredAfter()).toBe(15_000);
  const ending = runTask();
  await vi.advanceTimersByTimeAsync(1000);
  ended.send({ execution });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ending.answeredAfter()).toBe(1000);
});
