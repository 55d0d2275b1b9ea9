import { expect, test } from "vitest";
import {
  shortValue,
  snapshotText,
  takeoverNote,
  type Snapshot,
} from "../../src/agent_debugging/snapshot_text";

const stopped: Snapshot = {
  state: "stopped",
  name: "Main",
  reason: "breakpoint",
  description: "",
  exit_code: null,
  path: "/a.js",
  line: 2,
  thread: 1,
  threads: [{ id: 1, name: "main", stopped: true }],
  frames: [
    { frame: 0, name: "add", path: "/a.js", line: 2 },
    { frame: 1, name: "<anonymous>", path: null, line: 8 },
  ],
  lines: [
    { line: 1, text: "function add() {" },
    { line: 2, text: "  return 1;" },
  ],
  variables: [
    { scope: "Local", name: "one", value: "1", type: "number" },
    { scope: "Local", name: "each", value: "[…]", type: "List" },
  ],
  output: "hello\n",
  truncated: false,
  taken_over: false,
};

test("a stop is told with place, source, stack, variables and output", () => {
  expect(snapshotText(stopped)).toBe(`\
Stopped by breakpoint at /a.js:2 in add
Source:
  1: function add() {
> 2:   return 1;
Stack:
> 0 add /a.js:2
  1 <anonymous> (no source):8
Variables:
  Local: one = 1
  Local: each = […] (List)
Output since the last answer:
hello`);
});

test("programs that run or ended are told in a line, and several threads are listed", () => {
  const nothing = { frames: [], lines: [], variables: [], output: "" };
  expect(snapshotText({ ...stopped, ...nothing, state: "running" })).toBe(
    "'Main' is still running",
  );
  const ended = { ...stopped, ...nothing, state: "ended", exit_code: 3 } as const;
  expect(snapshotText(ended)).toBe("'Main' has ended with exit code 3");
  expect(snapshotText({ ...ended, exit_code: null })).toBe("'Main' has ended");
  const threads = [...stopped.threads, { id: 2, name: "worker", stopped: false }];
  expect(snapshotText({ ...stopped, threads })).toContain("  2 worker (running)");
});

test("an exception is told with its text", () => {
  const text = snapshotText({ ...stopped, reason: "exception", description: "Error: no" });
  expect(text.split("\n")[0]).toBe("Stopped by exception (Error: no) at /a.js:2 in add");
});

test("values are short and in one line", () => {
  expect(shortValue("{\n  a\n}")).toBe("{ a }");
  expect(shortValue("x".repeat(300))).toHaveLength(200);
});

test("what the user did is told in words", () => {
  expect(takeoverNote([])).toBe("");
  expect(takeoverNote(["next", "pause"])).toMatch(/: stepped over, paused$/);
});
