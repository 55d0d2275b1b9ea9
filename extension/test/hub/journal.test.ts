import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Journal } from "../../src/hub/journal";
import { answer, failed, type Answer } from "../../src/protocol";

let directory: string;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-"));
});

afterEach(() => fs.rmSync(directory, { recursive: true, maxRetries: 10 }));

const observed = (id: string, text = ""): Answer => answer(id, failed("usage", text));

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

test("it is bounded, oldest first, and what still runs is never forgotten", () => {
  const journal = new Journal(directory, "a", { actions: 10, bytes: 1 << 20 });
  journal.begin("running");
  for (let n = 0; n < 50; n += 1) {
    journal.begin(`${n}`);
    journal.end(observed(`${n}`));
  }
  expect(journal.find("running")).toEqual({ state: "running" });
  expect(journal.find("0")).toEqual({ state: "new" });
  expect(journal.find("49").state).toBe("ended");
  journal.close();
});

test("its file stays within bounds however much is observed", () => {
  const journal = new Journal(directory, "a", { actions: 1000, bytes: 10_000 });
  for (let n = 0; n < 200; n += 1) {
    journal.begin(`${n}`);
    journal.end(observed(`${n}`, "x".repeat(1000)));
  }
  const sizes = fs
    .readdirSync(directory)
    .map((name) => fs.statSync(path.join(directory, name)).size);
  expect(Math.max(...sizes)).toBeLessThan(25_000);
  expect(journal.find("199").state).toBe("ended");
  journal.close();
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
