import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LatestTasks } from "../../src/nets/latest_tasks";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("work that waits is replaced by newer work for the same key", () => {
  const latest = new LatestTasks();
  const done: string[] = [];
  const work = (name: string) => (): Promise<void> => Promise.resolve(void done.push(name));

  latest.begin("a", 100, work("old"));
  latest.begin("b", 100, work("other"));
  vi.advanceTimersByTime(50);
  latest.begin("a", 100, work("new"));
  vi.advanceTimersByTime(100);

  expect(done).toEqual(["other", "new"]);
});

test("work that runs is told when there is newer work, and when all is over", () => {
  const latest = new LatestTasks();
  const signals: AbortSignal[] = [];
  const never = (signal: AbortSignal): Promise<void> => {
    signals.push(signal);
    return new Promise(() => undefined);
  };

  latest.begin("a", 0, never);
  vi.advanceTimersByTime(0);
  latest.begin("a", 0, never);
  vi.advanceTimersByTime(0);
  expect(signals.map((each) => each.aborted)).toEqual([true, false]);

  latest.dispose();
  expect(signals[1]?.aborted).toBe(true);
});
