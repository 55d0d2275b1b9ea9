import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Journal, ID_LIFETIME_MS, removeOldJournals } from "../../src/hub/journal";
import { observationFor, errorObservation, type SentObservation } from "../../src/protocol";

let directory: string;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-"));
});

afterEach(() => fs.rmSync(directory, { recursive: true, maxRetries: 10 }));

const observed = (id: string, text = ""): SentObservation =>
  observationFor(id, errorObservation("usage", text));

/** As if the host that wrote it had ended: no process has this number. */
function abandon(journal: Journal): void {
  journal.close();
  const [name = ""] = fs
    .readdirSync(directory)
    .filter((each) => each.startsWith(`${process.pid}.`));
  fs.renameSync(path.join(directory, name), path.join(directory, `4194999.${name}`));
}

test("what was begun and not ended by an earlier host is lost", () => {
  const before = new Journal(directory, "a");
  before.begin("1");
  abandon(before);
  const journal = new Journal(directory, "b");
  expect(journal.find("1")).toEqual({ state: "lost" });
  expect(journal.find("2")).toEqual({ state: "new" });
  journal.close();
});

test("an observation nobody confirmed is sent by the next host, once confirmed by none", () => {
  const before = new Journal(directory, "a");
  for (const id of ["1", "2"]) {
    before.begin(id);
    before.end(observed(id));
  }
  before.acknowledge("1");
  abandon(before);
  const journal = new Journal(directory, "b");
  expect(journal.unacknowledged().map((each) => each.cause)).toEqual(["2"]);
  expect(journal.find("1").state).toBe("ended");
  journal.close();
});

test("two hosts of one window know of each other's actions", () => {
  const one = new Journal(directory, "a");
  const two = new Journal(directory, "b");
  one.begin("1");
  expect(two.find("1")).toEqual({ state: "lost" });
  one.end(observed("1"));
  expect(two.find("1").state).toBe("ended");
  expect(two.unacknowledged()).toEqual([]);
  one.close();
  two.close();
});

test("an id is known however many actions came since, until its life is over", () => {
  let now = 0;
  const journal = new Journal(directory, "a", undefined, () => now);
  journal.begin("running");
  journal.begin("first");
  journal.end(observed("first"));
  for (let n = 0; n < 3000; n += 1) {
    journal.begin(`${n}`);
    journal.end(observed(`${n}`));
  }
  expect(journal.find("first").state).toBe("ended");
  now = ID_LIFETIME_MS + 1;
  journal.begin("later");
  expect(journal.find("running")).toEqual({ state: "running" });
  expect(journal.find("first")).toEqual({ state: "new" });
  // What its sender says of its age keeps it from being done a second time.
  expect(journal.find("first", ID_LIFETIME_MS + 1)).toEqual({ state: "expired" });
  journal.close();
});

test("what its sender has is not kept, but that it was done is known, also to the next host", () => {
  const before = new Journal(directory, "a");
  before.begin("1");
  before.receive("1"); // too early: it has not ended
  before.end(observed("1", "text"));
  expect(before.find("1").state).toBe("ended");
  before.receive("1");
  expect(before.find("1")).toEqual({ state: "done" });
  abandon(before);
  const journal = new Journal(directory, "b");
  expect(journal.find("1")).toEqual({ state: "done" });
  journal.close();
});

test("too many bytes of observations are dropped, oldest first, and their ids are not", () => {
  const limits = { bytes: 10_000, fileBytes: 20_000 };
  const journal = new Journal(directory, "a", limits);
  for (let n = 0; n < 200; n += 1) {
    journal.begin(`${n}`);
    journal.end(observed(`${n}`, "x".repeat(1000)));
  }
  const sizes = fs
    .readdirSync(directory)
    .map((name) => fs.statSync(path.join(directory, name)).size);
  expect(Math.max(...sizes)).toBeLessThan(50_000);
  expect(journal.find("0")).toEqual({ state: "done" });
  expect(journal.find("199").state).toBe("ended");
  journal.close();
});

test("a file that its host wrote anew is read from its beginning", () => {
  const limits = { bytes: 1000, fileBytes: 1000 };
  const one = new Journal(directory, "a", limits);
  const two = new Journal(directory, "b");
  one.begin("0");
  expect(two.find("0")).toEqual({ state: "lost" });
  for (let n = 1; n < 50; n += 1) {
    one.begin(`${n}`);
    one.end(observed(`${n}`, "x".repeat(100)));
  }
  for (let n = 1; n < 50; n += 1) expect(["ended", "done"]).toContain(two.find(`${n}`).state);
  one.close();
  two.close();
});

test("a line torn by a host that died is passed over", () => {
  const before = new Journal(directory, "a");
  before.begin("1");
  before.end(observed("1"));
  abandon(before);
  const [name = ""] = fs.readdirSync(directory);
  fs.appendFileSync(path.join(directory, name), '{"begun": "2');
  const journal = new Journal(directory, "b");
  expect(journal.find("1").state).toBe("ended");
  expect(journal.find("2").state).toBe("new");
  journal.close();
});

test("of two hosts that begin an action at the same time, the second does not do it", () => {
  const one = new Journal(directory, "a");
  const two = new Journal(directory, "b");
  expect(one.find("1")).toEqual({ state: "new" });
  expect(two.find("1")).toEqual({ state: "new" });
  expect(one.begin("1")).toBe(true);
  expect(two.begin("1")).toBe(false);
  expect(two.find("1")).toEqual({ state: "lost" });
  expect(one.find("1")).toEqual({ state: "running" });
  one.close();
  two.close();
});

test("the file of a host that is gone stays until its lines are in another", () => {
  const before = new Journal(directory, "a");
  before.begin("1");
  abandon(before);
  const left = fs.readdirSync(directory);
  fs.mkdirSync(path.join(directory, `${process.pid}.b.jsonl.new`)); // it cannot write them
  expect(() => new Journal(directory, "b")).toThrow("EISDIR");
  expect(fs.readdirSync(directory)).toEqual(expect.arrayContaining(left));
});

test("journals of windows that are gone for longer than an id is known are removed", () => {
  for (const window of ["gone", "recent", "own"])
    new Journal(path.join(directory, window), "a").close();
  const dead = (window: string): void => {
    const [name = ""] = fs.readdirSync(path.join(directory, window));
    fs.renameSync(
      path.join(directory, window, name),
      path.join(directory, window, "4194999.a.jsonl"),
    );
  };
  for (const window of ["gone", "recent", "own"]) dead(window);
  const long = new Date(Date.now() - 2 * ID_LIFETIME_MS);
  for (const window of ["gone", "own"]) {
    fs.utimesSync(path.join(directory, window, "4194999.a.jsonl"), long, long);
    fs.utimesSync(path.join(directory, window), long, long);
  }
  removeOldJournals(directory, "own");
  expect(fs.readdirSync(directory).sort()).toEqual(["own", "recent"]);
});
