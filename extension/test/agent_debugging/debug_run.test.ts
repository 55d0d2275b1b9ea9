import { expect, test } from "vitest";
import { DebugRun, type DapMessage } from "../../src/agent_debugging/debug_run";

const never = new AbortController().signal;

function started(): DebugRun {
  const run = new DebugRun();
  run.sessionStarted("a");
  return run;
}

function stopped(run: DebugRun, threadId = 1, reason = "breakpoint"): void {
  run.received("a", { type: "event", event: "stopped", body: { reason, threadId } });
}

function request(command: string, seq = 1): DapMessage {
  return { type: "request", command, seq, arguments: { threadId: 1 } };
}

function soon(): number {
  return performance.now() + 10_000;
}

test("a wait ends with the next stop", async () => {
  const run = started();
  const waiting = run.waitFor(() => run.stop !== undefined, soon(), never);
  stopped(run);
  expect(await waiting).toBe(true);
  expect(run.stop).toEqual({ session: "a", thread: 1, reason: "breakpoint", description: "" });
});

test("a wait ends at its time or when it is cancelled", async () => {
  const run = started();
  expect(await run.waitFor(() => false, performance.now() + 5, never)).toBe(false);
  const controller = new AbortController();
  const waiting = run.waitFor(() => false, soon(), controller.signal);
  controller.abort();
  expect(await waiting).toBe(false);
});

test("requests that nobody announced are the user's, and are told once", () => {
  const run = started();
  stopped(run);
  run.expect("a", "next");
  run.sent("a", request("next"));
  expect(run.stop).toBeUndefined();
  expect(run.takePersonRequests()).toEqual([]);
  run.sent("a", request("next"));
  run.sent("a", request("threads"));
  expect(run.takePersonRequests()).toEqual(["next"]);
  expect(run.takePersonRequests()).toEqual([]);
});

test("the end of a session is the user's only while its program runs", () => {
  const run = started();
  run.sent("a", request("disconnect"));
  expect(run.takePersonRequests()).toEqual(["disconnect"]);
  run.received("a", { type: "event", event: "terminated" });
  run.sent("a", request("disconnect"));
  expect(run.takePersonRequests()).toEqual([]);
});

test("a program that could not go on is still stopped", () => {
  const run = started();
  stopped(run);
  run.sent("a", request("continue", 7));
  run.received("a", { type: "response", command: "continue", request_seq: 7, success: false });
  expect(run.stop?.thread).toBe(1);
});

test("the run ends with its last session, and knows the exit code", () => {
  const run = started();
  run.sessionStarted("b");
  stopped(run);
  run.received("b", { type: "event", event: "exited", body: { exitCode: 4 } });
  run.sessionEnded("a");
  expect([run.hasEnded, run.stop]).toEqual([false, undefined]);
  run.sessionEnded("b");
  expect([run.hasEnded, run.exitCode]).toEqual([true, 4]);
});

test("the JavaScript debugger tells the exit code in its output", () => {
  const run = started();
  const output = "Process exited with code 3\r\n";
  run.received("a", { type: "event", event: "output", body: { category: "stderr", output } });
  expect(run.exitCode).toBe(3);
});

test("a launch that fails ends the run with the reason of the adapter", () => {
  const run = started();
  const error = { format: "no file {path}", variables: { path: "/x" } };
  run.received("a", { type: "response", command: "launch", success: false, body: { error } });
  expect([run.hasEnded, run.failure]).toEqual([true, "no file /x"]);
});

test("output is given once, and its beginning is left out if it is long", () => {
  const run = started();
  const print = (output: string): void =>
    run.received("a", { type: "event", event: "output", body: { output } });
  print("one\n");
  run.received("a", {
    type: "event",
    event: "output",
    body: { category: "telemetry", output: "t" },
  });
  expect(run.takeOutput()).toEqual({ text: "one\n", leftOut: 0 });
  for (let n = 0; n < 5; n++) print("x".repeat(10_000));
  const { text, leftOut } = run.takeOutput();
  expect([text.length, leftOut]).toEqual([16_000, 34_000]);
});
