/** Pending changes on disk, and which agent's command changed a file. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AgentCommands } from "../../src/review/agent_commands";
import { removeOldReviews, ReviewStore } from "../../src/review/review_store";
import { ReviewedFile } from "../../src/review/reviewed_file";
import { describeHunk, TakenBack } from "../../src/review/taken_back";

let directory = "";

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-review-"));
});

afterEach(() => fs.rmSync(directory, { recursive: true }));

function changed(name: string, before = "a", after = "b"): ReviewedFile {
  const file = new ReviewedFile(name, before.split("\n"), false);
  file.wrote("Ann", after.split("\n"));
  file.show(after.split("\n"), "person");
  return file;
}

test("a stored file is the same after a restart", () => {
  const file = changed("/w/a.txt", "a\nb\n", "a\nB\n");
  file.isDirty = true;
  file.lineEnd = "\r\n";
  const gone = new ReviewedFile("/w/gone", ["x"], false);
  gone.removed = { bytes: Buffer.from([0xff, 0, 1]), mode: 0o600 };
  const store = new ReviewStore(directory);
  store.load();
  store.save(file);
  store.save(gone);
  const { files, broken } = new ReviewStore(directory).load();
  expect(broken).toEqual([]);
  const again = files.find((each) => each.path === file.path);
  expect(again?.lineEnd).toBe("\r\n");
  expect([again?.base, again?.text, again?.agents, again?.isDirty, again?.isCreated]).toEqual([
    file.base,
    file.text,
    ["Ann"],
    true,
    false,
  ]);
  expect(files.find((each) => each.path === "/w/gone")?.removed).toEqual(gone.removed);
  store.remove(file.path);
  expect(new ReviewStore(directory).load().files.length).toBe(1);
});

test("a file that cannot be read is named, and the others are loaded", () => {
  const store = new ReviewStore(directory);
  store.load();
  store.save(changed("/w/a.txt"));
  fs.writeFileSync(path.join(directory, "torn.json"), '{"path": "/w');
  const { files, broken } = new ReviewStore(directory).load();
  expect(files.map((each) => each.path)).toEqual(["/w/a.txt"]);
  expect(broken).toEqual(["torn.json"]);
});

test("beyond the limits the oldest changes are dropped", () => {
  const store = new ReviewStore(directory, { files: 2, bytes: 10_000 });
  store.load();
  for (const name of ["one", "two", "one"]) expect(store.save(changed(name))).toEqual([]);
  expect(store.save(changed("three"))).toEqual(["two"]);
  expect(store.save(changed("large", "a", "b".repeat(9_900)))).toEqual(["one", "three"]);
  expect(new ReviewStore(directory).load().files.map((each) => each.path)).toEqual(["large"]);
});

test("what windows stored that are not opened any more is removed after 90 days", () => {
  for (const window of ["own", "old", "new"]) fs.mkdirSync(path.join(directory, window));
  const before = (days: number): Date => new Date(Date.now() - days * 86_400_000);
  for (const window of ["own", "old"])
    fs.utimesSync(path.join(directory, window), before(91), before(91));
  removeOldReviews(directory, "own");
  removeOldReviews(path.join(directory, "none"), "own");
  expect(fs.readdirSync(directory).sort()).toEqual(["new", "own"]);
});

test("a change belongs to the agent whose command ran when it was made", () => {
  let now = 10_000;
  const commands = new AgentCommands(() => now);
  commands.began("1", "Ann");
  now = 20_000;
  commands.ended("1", "default", "done");
  expect([5_000, 15_000, 20_500, 30_000].map((time) => commands.agentAt(time))).toEqual([
    undefined,
    "Ann",
    "Ann",
    undefined,
  ]);
});

test("a program that runs on after the answer counts until its shell answers again", () => {
  let now = 0;
  const commands = new AgentCommands(() => now);
  const run = (id: string, agent: string, shell: string, state: string): void => {
    commands.began(id, agent);
    now += 10_000;
    commands.ended(id, shell, state);
  };
  run("1", "Ann", "server", "running");
  run("2", "Ann", "default", "done");
  run("3", "Ann", "server", "refused");
  now += 10_000;
  expect(commands.agentAt(now)).toBe("Ann");
  run("4", "Ann", "server", "idle");
  now += 10_000;
  expect(commands.agentAt(now)).toBeUndefined();
});

test("an agent is told once what was taken back", () => {
  const taken = new TakenBack();
  taken.add(["Ann", "Bob"], describeHunk("a.py", { baseStart: 1, baseEnd: 1, start: 9, end: 14 }));
  taken.add(["Ann"], describeHunk("b.py", { baseStart: 4, baseEnd: 6, start: 3, end: 3 }));
  expect(taken.takeNote("Ann")).toBe(
    "The user took back what you had changed: lines 10 to 14 of a.py; " +
      "the removal of 2 lines after line 3 of b.py. Read a file again before you build on it.",
  );
  expect(taken.takeNote("Ann")).toBe("");
  expect(taken.takeNote("Bob")).toContain("lines 10 to 14 of a.py");
  for (let n = 0; n < 25; n += 1) taken.add(["Ann"], `line ${n}`);
  expect(taken.takeNote("Ann")).toMatch(/: 5 more changes; line 5; .*; line 24\./);
});
