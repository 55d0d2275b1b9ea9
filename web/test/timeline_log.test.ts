import { describe, expect, it } from "vitest";
import type { TimelineEntry } from "../src/hub/types";
import { durationText, outcomeOf, matchesFilter, subjectOf } from "../src/timeline/describe";
import { TimelineLog, type TimelineRow } from "../src/timeline/timeline_log";

const began = (n: number, id: string, command = "make"): TimelineEntry => ({
  n,
  kind: "action",
  time: 10,
  who: "agent",
  event: { id, action: "run", args: { command } },
});
const ended = (n: number, cause: string, status = 0, content = "ok\n"): TimelineEntry => ({
  n,
  kind: "observation",
  time: 12,
  seconds: 2,
  event: {
    id: `${cause}'`,
    cause,
    observation: "run",
    content,
    extras: { command: "make", metadata: { exit_code: status } },
    success: status === 0,
  },
});
const printed = (cause: string, bytes: number[]): TimelineEntry => ({
  n: 0,
  kind: "output",
  time: 11,
  cause,
  data: btoa(String.fromCharCode(...bytes)),
});

function firstOf(log: TimelineLog): TimelineRow {
  const row = log.rows[0];
  if (!row) throw new Error("the log is empty");
  return row;
}

describe("a log", () => {
  it("has one row for an action, from its beginning to its end", () => {
    const log = new TimelineLog();
    log.apply("e", [began(1, "a")]);
    expect(log.rows[0]).toMatchObject({ state: "running", who: "agent" });
    log.apply("e", [ended(2, "a", 3)]);
    expect(log.rows).toHaveLength(1);
    expect(log.rows[0]).toMatchObject({ state: "failed", seconds: 2 });
    expect(outcomeOf(firstOf(log))).toBe("exit 3");
  });

  it("knows the checkpoint of an action that changed files", () => {
    const log = new TimelineLog();
    log.apply("e", [began(1, "a"), ended(2, "a"), began(3, "b")]);
    log.apply("e", [{ ...ended(4, "b"), checkpoint: 7 } as TimelineEntry]);
    expect(log.rows.map((row) => row.checkpoint)).toEqual([null, 7]);
  });

  it("passes over what it has seen, as after a reconnect", () => {
    const log = new TimelineLog();
    log.apply("e", [began(1, "a"), ended(2, "a")]);
    log.apply("e", [began(1, "a"), ended(2, "a"), began(3, "b")]);
    expect(log.rows.map((row) => row.id)).toEqual(["a", "b"]);
    expect(log.last).toBe(3);
  });

  it("begins anew with another epoch", () => {
    const log = new TimelineLog();
    log.apply("e", [began(7, "a")]);
    log.apply("f", [began(1, "b")]);
    expect(log.rows.map((row) => row.id)).toEqual(["b"]);
  });

  it("shows output while it comes, also where a piece ends inside a character", () => {
    const log = new TimelineLog();
    log.apply("e", [began(1, "a"), printed("a", [0x68, 0xc3]), printed("a", [0xa4])]);
    expect(log.rows[0]?.output).toBe("hä");
    log.apply("e", [ended(2, "a")]);
    expect(log.rows[0]).toMatchObject({ output: "", state: "done" });
  });

  it("keeps what an observation says over what was feared before", () => {
    const log = new TimelineLog();
    const lost: TimelineEntry = {
      n: 2,
      kind: "failed",
      time: 11,
      cause: "a",
      seconds: 1,
      message: "gone",
    };
    log.apply("e", [began(1, "a"), lost]);
    expect(outcomeOf(firstOf(log))).toBe("gone");
    log.apply("e", [ended(3, "a")]);
    expect(log.rows[0]?.state).toBe("done");
    expect(outcomeOf(firstOf(log))).toBe("");
  });

  it("drops the oldest rows rather than grow for ever", () => {
    const log = new TimelineLog();
    log.apply(
      "e",
      Array.from({ length: 50_010 }, (_, i) => began(i + 1, `a${i}`)),
    );
    expect(log.rows).toHaveLength(50_000);
    expect(log.rows[0]?.id).toBe("a10");
    expect(log.dropped).toBe(10);
  });
});

describe("a row", () => {
  const log = new TimelineLog();
  log.apply("e", [began(1, "a", "echo one\necho two"), ended(2, "a", 0, "Needle here")]);
  const row = firstOf(log);

  it("says in one line what it was about", () => {
    expect(subjectOf(row)).toBe("echo one ⏎ echo two");
  });

  it("names a file of the workspace from there", () => {
    const read = (path: string): string =>
      subjectOf({ ...row, action: { id: "b", action: "read", args: { path } } });
    expect(read("/workspace/src/a.py")).toBe("src/a.py");
    expect(read("/etc/hosts")).toBe("/etc/hosts");
    expect(read("/workspace/")).toBe("/workspace/");
  });

  it("is found by what it asked and by what came of it", () => {
    expect(matchesFilter(row, { text: "needle", group: "all" })).toBe(true);
    expect(matchesFilter(row, { text: "ECHO", group: "commands" })).toBe(true);
    expect(matchesFilter(row, { text: "", group: "files" })).toBe(false);
    expect(matchesFilter(row, { text: "", group: "failed" })).toBe(false);
  });

  it("tells its time in units that fit", () => {
    expect(durationText(0.0004)).toBe("1 ms");
    expect(durationText(3.21)).toBe("3.2 s");
    expect(durationText(125)).toBe("2 min 5 s");
  });
});
