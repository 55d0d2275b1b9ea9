import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { personFile, rulesFor, RuleSources, WORKSPACE_FILE } from "../../src/consent/rule_sources";

let base: string;
let person: string;
let workspace: string;
let told: string[];
let sources: RuleSources;

beforeEach(() => {
  base = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "bascule-rules-")));
  person = path.join(base, "config/bascule/rules.toml");
  workspace = path.join(base, "workspace");
  told = [];
  sources = new RuleSources({
    personFile: person,
    folders: () => [workspace],
    onProblem: (message) => told.push(message),
  });
});

afterEach(() => fs.rmSync(base, { recursive: true }));

function write(file: string, text: string): void {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}

function known(): string[] {
  return sources.current().rules.map(({ kind, words }) => `${kind} ${words.join(" ")}`);
}

const why = "for a test";

test("the user's file is where the configuration is", () => {
  expect(personFile({ XDG_CONFIG_HOME: "/c" })).toBe("/c/bascule/rules.toml");
  const usual = path.join(os.homedir(), ".config/bascule/rules.toml");
  expect(personFile({})).toBe(usual);
  expect(personFile({ XDG_CONFIG_HOME: "relative" })).toBe(usual);
});

test("a change of a file counts at once", () => {
  expect(known()).toEqual([]);
  write(person, '[[allow]]\nrun = ["ls"]\n');
  expect(known()).toEqual(["allow ls"]);
  write(person, '[[deny]]\nrun = ["ls"]\n');
  expect(known()).toEqual(["deny ls"]);
  fs.rmSync(person);
  expect(known()).toEqual([]);
});

test("a workspace adds deny and ask, and its allow rules are ignored with a warning", () => {
  write(person, '[[allow]]\nrun = ["ls"]\n');
  write(
    path.join(workspace, WORKSPACE_FILE),
    '[[deny]]\nrun = ["rm"]\n[[allow]]\nrun = ["curl"]\n',
  );
  expect(known()).toEqual(["allow ls", "deny rm"]);
  expect(known()).toEqual(["allow ls", "deny rm"]);
  expect(told).toHaveLength(1);
  expect(told[0]).toContain(`${WORKSPACE_FILE}:3: ignored`);
});

test("a file with an error is a problem, until it is mended", () => {
  write(person, "[[allow]\n");
  expect(sources.current().problems).toHaveLength(1);
  expect(sources.current().problems[0]).toContain(`${person}:1: `);
  expect(told).toHaveLength(1);
  write(person, '[[allow]]\nrun = ["ls"]\n');
  expect(sources.current()).toMatchObject({ problems: [], rules: [{ words: ["ls"] }] });
});

test.each([
  ["a directory", () => fs.mkdirSync(person, { recursive: true })],
  ["too large", () => write(person, "#".repeat(300_000))],
  ["not UTF-8", () => write(person, "")],
])("a file that is %s is a problem", (what, make) => {
  make();
  if (what === "not UTF-8") fs.writeFileSync(person, Buffer.of(0xff, 0xfe));
  expect(sources.current().problems).toHaveLength(1);
  fs.rmSync(person, { recursive: true });
  expect(sources.current().problems).toEqual([]);
});

test("rules are added for an agent, to a new file that only the user can read", async () => {
  await sources.add({ rules: [["git", "diff"]], agent: "Ann", why });
  expect(fs.statSync(person).mode & 0o777).toBe(0o600);
  const { rules } = sources.current();
  expect(rulesFor("Ann", rules).lists.allow).toEqual([["git", "diff"]]);
  expect(rulesFor("Bob", rules).lists.allow).toEqual([]);
  expect(fs.readdirSync(path.dirname(person))).toEqual(["rules.toml"]);
});

test("several rules added at the same time are all kept", async () => {
  const names = ["a", "b", "c", "d"];
  await Promise.all(names.map((name) => sources.add({ rules: [[name]], agent: "Ann", why })));
  expect(known()).toEqual(names.map((name) => `allow ${name}`));
});

test("a link to the file stays a link", async () => {
  const kept = path.join(base, "dotfiles/rules.toml");
  write(kept, "# mine\n");
  fs.mkdirSync(path.dirname(person), { recursive: true });
  fs.symlinkSync(kept, person);
  await sources.add({ rules: [["ls"]], agent: "Ann", why });
  expect(fs.lstatSync(person).isSymbolicLink()).toBe(true);
  expect(fs.readFileSync(kept, "utf8")).toMatch(/^# mine\n[^]*\[\[allow\]\]/);
  expect(sources.isPersonFile(kept)).toBe(true);
});

test("a broken file is not added to", async () => {
  write(person, "[[allow]\n");
  await expect(sources.add({ rules: [["ls"]], agent: "Ann", why })).rejects.toThrow();
  expect(fs.readFileSync(person, "utf8")).toBe("[[allow]\n");
});

test("a rule is counted and removed", async () => {
  await sources.add({ rules: [["ls"], ["pwd"]], agent: "Ann", why });
  const [first] = sources.current().rules;
  if (!first) throw new Error("no rule");
  sources.countUse(first);
  expect(sources.countOf(first)).toBe(1);
  expect(await sources.remove(first)).toBe(true);
  expect(known()).toEqual(["allow pwd"]);
  expect(await sources.remove(first)).toBe(false);
});
