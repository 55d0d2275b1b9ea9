/**
 * Reads rules from the text of a TOML file and checks the examples in it. The sandbox reads the
 * same format (src/bascule/rules/rule_files.py):
 *
 *     [[allow]]
 *     run = ["git log", "git diff"]
 *     yes = ["git log -1"]             # must be allowed by these rules alone
 *     no = ["git log --output=x"]      # must not be
 *
 *     [[deny]]
 *     run = ["git push"]
 *     why = "Push yourself"
 *     agent = "reviewer"               # for this agent only
 */
import { parse, TomlError } from "smol-toml";
import { decideCommand, type CommandDecision, type CommandVerdict } from "./decision";
import type { CommandRule } from "./rule_matching";
import { ruleWords } from "./rule_words";

/** Who can write a file: only the user, or also agents. Allow rules need a file of the user. */
export type RuleOwner = "person" | "workspace";

export interface FileRule {
  readonly kind: CommandVerdict;
  readonly words: CommandRule;
  /** The rule applies to the agent of this name only. */
  readonly agent: string | undefined;
  readonly why: string;
  readonly owner: RuleOwner;
  readonly file: string;
  /** Line number of the table that has the rule, from 1. */
  readonly line: number;
}

export interface RuleFile {
  readonly rules: readonly FileRule[];
  /** Which rules were ignored, and why. */
  readonly warnings: readonly string[];
}

/** The message has the file, and the line if it is known. */
export class RuleFileError extends Error {}

const KINDS = ["allow", "ask", "deny"] as const;
const KEYS = ["run", "yes", "no", "why", "agent"];
const HEADER = /^[ \t]*\[\[[ \t]*(allow|ask|deny)[ \t]*\]\]/gm;
const EXAMPLE_PLACE = { workspaces: ["/workspace"], cwd: "/workspace" };

interface RuleTable {
  readonly kind: CommandVerdict;
  readonly rules: readonly FileRule[];
  readonly yes: readonly string[];
  readonly no: readonly string[];
  readonly line: number;
}

/** Throws a `RuleFileError`. Allow rules of a workspace are ignored, with a warning. */
export function readRules(text: string, file: string, owner: RuleOwner): RuleFile {
  const content = parsed(text, file);
  for (const name of Object.keys(content))
    if (!KINDS.some((kind) => kind === name))
      throw new RuleFileError(
        `${file}: there is no \`${name}\`; a file of rules has [[allow]], [[ask]] and [[deny]]`,
      );
  const tables = KINDS.flatMap((kind) => tablesOf(kind, content[kind] ?? [], text, file, owner));
  const failures = tables.flatMap((table) => failuresOf(table, text, file));
  if (failures.length) throw new RuleFileError(failures.join("\n"));
  const ignored = (table: RuleTable): boolean => owner === "workspace" && table.kind === "allow";
  return {
    rules: tables.filter((table) => !ignored(table)).flatMap(({ rules }) => rules),
    warnings: tables
      .filter(ignored)
      .map(
        ({ line }) =>
          `${file}:${line}: ignored, because a workspace can only add [[ask]] and [[deny]]; ` +
          "[[allow]] belongs into your own file of rules, which an agent cannot write",
      ),
  };
}

function parsed(text: string, file: string): Readonly<Record<string, unknown>> {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [reason = ""] = error.message.split("\n");
    throw new RuleFileError(`${file}:${error.line}: ${reason}`);
  }
}

function tablesOf(
  kind: CommandVerdict,
  given: unknown,
  text: string,
  file: string,
  owner: RuleOwner,
): RuleTable[] {
  if (!Array.isArray(given) || !given.every(isTable))
    throw new RuleFileError(`${file}: write [[${kind}]] with two brackets`);
  const headers = [...text.matchAll(HEADER)].filter(([, name]) => name === kind);
  return given.map((table, n) => {
    const at = headers.length === given.length ? (headers[n]?.index ?? 0) : 0;
    const line = text.slice(0, at).split("\n").length;
    try {
      return tableOf(kind, table, { file, line, owner });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      throw new RuleFileError(`${file}:${line}: ${error.message}`);
    }
  });
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)
  );
}

function tableOf(
  kind: CommandVerdict,
  given: Readonly<Record<string, unknown>>,
  origin: { file: string; line: number; owner: RuleOwner },
): RuleTable {
  for (const key of Object.keys(given))
    if (!KEYS.includes(key)) throw new Error(`there is no \`${key}\`; use ${KEYS.join(", ")}`);
  const [why, agent] = [textOf(given, "why"), textOf(given, "agent")];
  const run = textsOf(given, "run");
  if (!run.length) throw new Error('`run` is missing; write run = ["git log"]');
  const rules = run.map((each): FileRule => ({
    kind,
    words: ruleWords(each),
    agent,
    why: why ?? "",
    ...origin,
  }));
  const [yes, no] = [textsOf(given, "yes"), textsOf(given, "no")];
  return { kind, rules, yes, no, line: origin.line };
}

function textOf(given: Readonly<Record<string, unknown>>, key: string): string | undefined {
  const value = given[key];
  if (value === undefined || typeof value === "string") return value;
  throw new Error(`\`${key}\` must be a string`);
}

function textsOf(given: Readonly<Record<string, unknown>>, key: string): string[] {
  const value = given[key] ?? [];
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
  throw new Error(`\`${key}\` must be a list of strings`);
}

/** One line for each example whose result is not as stated. */
function failuresOf(table: RuleTable, text: string, file: string): string[] {
  const rules = { allow: [], ask: [], deny: [] };
  const own = { ...rules, [table.kind]: table.rules.map(({ words }) => words) };
  const failing = (examples: readonly string[], wanted: boolean): string[] =>
    examples.flatMap((example) => {
      const decision = decideCommand(example, own, EXAMPLE_PLACE);
      if (applies(table, decision) === wanted) return [];
      const line = lineOf(example, text, table.line);
      return [`${file}:${line}: ${failure(table.kind, example, decision, wanted)}`];
    });
  return [...failing(table.yes, true), ...failing(table.no, false)];
}

function applies({ kind, rules }: RuleTable, { verdict, parts }: CommandDecision): boolean {
  if (kind !== "ask") return verdict === kind;
  return parts.some(({ rule }) => rules.some(({ words }) => words === rule));
}

function failure(
  kind: CommandVerdict,
  example: string,
  { verdict, parts }: CommandDecision,
  wanted: boolean,
): string {
  const verb = kind === "ask" ? "ask about" : kind;
  if (!wanted) return `these rules ${verb} \`${example}\`, which is listed under \`no\``;
  const reason = parts.find((part) => part.verdict === verdict)?.reason;
  const because = reason !== undefined && kind === "allow" ? `: ${reason}` : "";
  return `these rules do not ${verb} \`${example}\`, which is listed under \`yes\`${because}`;
}

/** The line of an example, or of its table if the example is written with escapes. */
function lineOf(example: string, text: string, first: number): number {
  const lines = text.split("\n").slice(first - 1);
  const at = lines.findIndex((line) => line.includes(example));
  return at < 0 ? first : first + at;
}
