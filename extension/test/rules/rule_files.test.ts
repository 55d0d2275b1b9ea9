/** Files of rules; the cases are shared with the reader in Python. */
import { expect, test } from "vitest";
import { readRules } from "../../src/rules/rule_files";
import { load } from "../vectors";

interface RuleFileCases {
  read: { text: string; rules: object[] }[];
  mistakes: { text: string; line: number; message: string }[];
  not_rules: string[];
}

const cases = load("rule_files") as RuleFileCases;

test.each(cases.read)("a file has rules and examples that hold: $text", ({ text, rules }) => {
  const { rules: found } = readRules(text, "/r.toml", "person");
  expect(found).toHaveLength(rules.length);
  expect(found).toMatchObject(rules);
});

test.each(cases.mistakes)("a mistake names the line: $message", ({ text, line, message }) => {
  expect(() => readRules(text, "/r.toml", "person")).toThrow(message);
  expect(() => readRules(text, "/r.toml", "person")).toThrow(`/r.toml:${line}: `);
});

test.each(cases.not_rules)("a file that is no list of rules is refused: %s", (text) => {
  expect(() => readRules(text, "/r.toml", "person")).toThrow("/r.toml:");
});

test("allow rules of a workspace are ignored, and said to be", () => {
  const text = '[[deny]]\nrun = ["git push"]\n[[allow]]\nrun = ["git log"]\n';
  const { rules, warnings } = readRules(text, "/w/r.toml", "workspace");
  expect(rules.map(({ kind }) => kind)).toEqual(["deny"]);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("/w/r.toml:3: ignored");
});
