import { expect, test } from "vitest";
import { isPlainRule, withAllowRules, withoutRule } from "../../src/consent/rule_edits";
import { readRules } from "../../src/rules/rule_files";

const MINE = `# my rules
[[allow]]
run = ["git log", "git diff"]  # to read
yes = ["git log -1"]

# never
[[deny]]
run = ["git push"]
`;

const added = { rules: [["npm", "test"], ["ls"]], agent: 'Ann "A"', why: "Allowed today" };

test("rules are added at the end, and everything else stays as it is", () => {
  const text = withAllowRules(MINE, added);
  expect(text.startsWith(MINE)).toBe(true);
  const { rules } = readRules(text, "r", "person");
  expect(rules).toHaveLength(5);
  expect(rules).toContainEqual(
    expect.objectContaining({ kind: "allow", words: ["npm", "test"], agent: 'Ann "A"' }),
  );
});

test("rules are added to an empty file", () => {
  expect(readRules(withAllowRules("", added), "r", "person").rules).toHaveLength(2);
});

test("a file that rules cannot be appended to is left alone", () => {
  expect(() => withAllowRules('allow = [{ run = ["ls"] }]\n', added)).toThrow();
  expect(() => withAllowRules("[[allow]]\nrun = 1\n", added)).toThrow();
});

test("only rules of plain words are written", () => {
  expect(isPlainRule(["git", "log"])).toBe(true);
  expect(isPlainRule(["./a-b_c.sh"])).toBe(true);
  for (const word of ["$(x)", "a b", "", "](command:x)", "a\nb", "‮"])
    expect(isPlainRule([word])).toBe(false);
});

function without(text: string, words: string): string | undefined {
  const rule = readRules(text, "r", "person").rules.find((each) => each.words.join(" ") === words);
  if (!rule) throw new Error(words);
  return withoutRule(text, rule);
}

test("one of several rules of a table is removed", () => {
  expect(without(MINE, "git diff")).toBe(MINE.replace(', "git diff"', ""));
});

test("the only rule of a table is removed with the table, and comments stay", () => {
  expect(without(MINE, "git push")).toBe(MINE.slice(0, MINE.indexOf("[[deny]]")));
  const text = withAllowRules(withAllowRules(MINE, added), { ...added, rules: [["pwd"]] });
  const rest = without(text, "pwd");
  expect(rest?.trimEnd()).toBe(withAllowRules(MINE, added).trimEnd());
});

test("a rule whose example would fail is left to the user", () => {
  expect(without(MINE, "git log")).toBeUndefined();
});

test("a rule that is written in another way is left to the user", () => {
  const text = '[[allow]]\nrun = ["git  log", "ls"]\n';
  expect(without(text, "git log")).toBeUndefined();
});
