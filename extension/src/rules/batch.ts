/**
 * A program that decides on many commands: JSON lines on standard input, one answer per line.
 *
 * A question is `{"command", "allow", "ask", "deny", "workspace", "cwd", "home"}`; rules are lists
 * of lists of words, and the last three are optional. An answer is `{"verdict", "parts"}`. The
 * answer to a malformed line is `ask`, and a warning has the number of the line.
 */
import { posix } from "node:path";
import { decideCommand, type CommandDecision } from "./decision";
import type { CommandRule } from "./rule_matching";

const WORKSPACE = "/home/ann/project";

/** Answers one line of JSON. Throws an `Error` that says what is wrong with the line. */
export function answerLine(line: string): string {
  const question: unknown = JSON.parse(line);
  if (typeof question !== "object" || question === null || Array.isArray(question))
    throw new Error("expected an object");
  const given = question as Readonly<Record<string, unknown>>;
  const command = given["command"];
  if (typeof command !== "string") throw new Error('"command" must be a string');
  const rules = {
    allow: rulesOf(given, "allow"),
    ask: rulesOf(given, "ask"),
    deny: rulesOf(given, "deny"),
  };
  const workspace = pathOf(given, "workspace", WORKSPACE);
  const cwd = pathOf(given, "cwd", workspace);
  // Checked but not used: a word with `~` always counts as unknown.
  pathOf(given, "home", "/home/ann");
  return inAscii(answer(command, decideCommand(command, rules, { workspaces: [workspace], cwd })));
}

/** Some readers end a line at U+2028 or U+0085 as well. */
function inAscii(value: object): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The answer to a malformed line: the verdict `ask`. */
function refusal(reason: string): string {
  const part = { text: "", start: 0, end: 0, verdict: "ask", reason, rule: null };
  return inAscii({ verdict: "ask", parts: [part] });
}

function answer(command: string, { verdict, parts }: CommandDecision): object {
  const character = characterIndex(command);
  return {
    verdict,
    parts: parts.map(({ text, start, end, verdict: own, reason, rule }) => ({
      text,
      start: character(start),
      end: character(end),
      verdict: own,
      reason,
      rule,
    })),
  };
}

/** Positions in the answer count characters, as other languages do, not UTF-16 units. */
function characterIndex(text: string): (unit: number) => number {
  if (!/[\ud800-\udbff]/.test(text)) return (unit) => unit;
  return (unit) => Array.from(text.slice(0, unit)).length;
}

function rulesOf(given: Readonly<Record<string, unknown>>, key: string): CommandRule[] {
  const rules = given[key] ?? [];
  if (!Array.isArray(rules) || !rules.every(isRule))
    throw new Error(`"${key}" must be a list of rules, each a list of at least one word`);
  return rules;
}

function isRule(rule: unknown): rule is CommandRule {
  return Array.isArray(rule) && rule.length > 0 && rule.every((word) => typeof word === "string");
}

function pathOf(given: Readonly<Record<string, unknown>>, key: string, otherwise: string): string {
  const path = given[key] ?? otherwise;
  if (typeof path !== "string" || !posix.isAbsolute(path))
    throw new Error(`"${key}" must be an absolute path`);
  return path;
}

/** Answers every line, in order. */
export async function runBatch(
  input: NodeJS.ReadableStream,
  { write, warn }: { write: (line: string) => void; warn: (message: string) => void },
): Promise<void> {
  let number = 0;
  for await (const line of linesOf(input)) {
    number++;
    try {
      write(answerLine(line));
    } catch (error) {
      const reason = `line ${number}: ${error instanceof Error ? error.message : String(error)}`;
      warn(reason);
      write(refusal(reason));
    }
  }
}

/** Splits at newlines only; node:readline also splits at U+2028, which JSON may contain. */
async function* linesOf(input: NodeJS.ReadableStream): AsyncGenerator<string> {
  input.setEncoding("utf8");
  let rest = "";
  for await (const chunk of input) {
    const lines = (rest + String(chunk)).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest) yield rest;
}
