/** Temporary directories of extension hosts: those of killed ones go, no others. */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { makeTemporary, sweepTemporary } from "../../src/common/temporary_directories";

let directory: string;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-"));
  vi.stubEnv("TMPDIR", directory);
});

afterEach(() => {
  vi.unstubAllEnvs();
  fs.rmSync(directory, { recursive: true });
});

/** What a host left that has ended. */
function left(): string {
  const ended = spawnSync("true").pid;
  const made = makeTemporary("shells");
  const name = made.replace(`-${process.pid}-`, `-${ended}-`);
  fs.renameSync(made, name);
  fs.writeFileSync(path.join(name, "main.log"), "what it said");
  return name;
}

test("what a killed host left is removed by the next one", () => {
  const there = left();
  expect(sweepTemporary()).toBe(1);
  expect(fs.existsSync(there)).toBe(false);
});

test("what a living host has is left alone, and so is what is not a host's", () => {
  const own = makeTemporary("shells");
  const inAnotherContainer = left();
  fs.renameSync(inAnotherContainer, inAnotherContainer.replace(/shells-\d+-/, "shells-1-"));
  fs.mkdirSync(path.join(directory, "bascule-0123456789abcdef"));
  expect(sweepTemporary()).toBe(0);
  expect(fs.readdirSync(directory)).toHaveLength(3);
  expect(fs.existsSync(own)).toBe(true);
});
