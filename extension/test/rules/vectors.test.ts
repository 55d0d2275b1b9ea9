/** The cases that this engine shares with the one in Python. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { answerLine } from "../../src/rules/batch";

interface RuleCase {
  readonly command: string;
  readonly verdict: string;
  readonly reason: string;
}

const file = join(import.meta.dirname, "../../../tests/contracts/vectors/command_rules.json");
const cases = JSON.parse(readFileSync(file, "utf8")) as RuleCase[];

test("there are cases of every verdict", () => {
  expect(new Set(cases.map(({ verdict }) => verdict))).toEqual(new Set(["allow", "ask", "deny"]));
});

test.each(cases)("$verdict: $reason: $command", (given) => {
  expect(JSON.parse(answerLine(JSON.stringify(given)))).toMatchObject({ verdict: given.verdict });
});
