import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AgentAction } from "../../src/hub/messages";
import { FakeEvent, FakeExecution } from "./fake_tasks";

const terminal = {
  name: "bash",
  processId: Promise.resolve(7),
  creationOptions: {},
  shellIntegration: {},
};
const started = new FakeEvent<{ terminal: object; execution: FakeExecution }>();
vi.mock("vscode", () => ({
  window: {
    terminals: [terminal],
    onDidStartTerminalShellExecution: started.subscribe,
    onDidEndTerminalShellExecution: new FakeEvent<object>().subscribe,
    onDidCloseTerminal: new FakeEvent<object>().subscribe,
  },
}));
const { UserTerminals } = await import("../../src/tasks/user_terminals");

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("output ends the wait of every call of an agent", async () => {
  const terminals = new UserTerminals();
  const args = { terminal: "7" };
  const action = { action: "read_terminal", args } as unknown as AgentAction;
  const read = async (milliseconds: number) => {
    const call = { until: performance.now() + milliseconds, signal: new AbortController().signal };
    return (await terminals.read(args, action, "agent", call)).content;
  };
  await terminals.shownArguments(action);
  expect(await read(0)).toBe("No output yet");

  const waiting = [read(600_000), read(600_000)];
  expect(vi.getTimerCount()).toBe(2);
  started.send({ terminal, execution: new FakeExecution() });

  expect(await Promise.all(waiting)).toEqual(["$ make\n", "No output since the last call"]);
  expect(vi.getTimerCount()).toBe(0);
  terminals.dispose();
});
