/** Adds rules to the text of a rule file and removes them. Everything else in the text is kept. */
import { stringify } from "smol-toml";
import { readRules, type FileRule } from "../rules/rule_files";
import type { CommandRule } from "../rules/rule_matching";

export interface NewRules {
  readonly rules: readonly CommandRule[];
  readonly agent: string;
  readonly why: string;
}

/** Words that can be written in a rule without quotes. */
const PLAIN_WORD = /^[\w@%+=:,./-]+$/;

/** Only rules of plain words can be added: the user sees them exactly as they are stored. */
export function isPlainRule(rule: CommandRule): boolean {
  return rule.every((word) => PLAIN_WORD.test(word));
}

/** `text` with a new `[[allow]]` table at its end. Throws if the result is not what was wanted. */
export function withAllowRules(text: string, { rules, agent, why }: NewRules): string {
  const run = rules.filter(isPlainRule).map((words) => words.join(" "));
  const table = `[[allow]]\n${stringify({ run, agent, why })}`;
  const added = text.trim() ? `${text.trimEnd()}\n\n${table}` : table;
  const result = added.endsWith("\n") ? added : `${added}\n`;
  const wanted = rules.map((words) => keyOf({ kind: "allow", words, agent }));
  ensureRules(result, [...keysOf(text), ...wanted]);
  return result;
}

/**
 * `text` without a rule, and without its table if the table has no other rule. Undefined if the
 * format of the text is too unusual to edit automatically.
 */
export function withoutRule(text: string, rule: FileRule): string | undefined {
  const lines = text.split("\n");
  const first = rule.line - 1;
  const next = lines.findIndex((line, at) => at > first && /^[ \t]*\[/.test(line));
  const end = next < 0 ? lines.length : next;
  const table = lines.slice(first, end);
  const siblings = readRules(text, "", "person").rules.filter(({ line }) => line === rule.line);
  const kept = siblings.length > 1 ? withoutText(table, rule) : afterLastKey(table);
  if (!kept) return undefined;
  const result = [...lines.slice(0, first), ...kept, ...lines.slice(end)].join("\n");
  const wanted = keysOf(text);
  wanted.splice(wanted.indexOf(keyOf(rule)), 1);
  try {
    ensureRules(result, wanted);
    return result;
  } catch {
    return undefined;
  }
}

/** The table without the rule in its list, if the rule is written there in one piece. */
function withoutText(table: readonly string[], { words }: FileRule): string[] | undefined {
  const written = JSON.stringify(words.join(" "));
  const whole = table.join("\n");
  const at = whole.indexOf(written);
  if (at < 0) return undefined;
  const before = whole.slice(0, at);
  const after = whole.slice(at + written.length);
  const rest = /^\s*,/.test(after)
    ? before + after.replace(/^\s*,[ \t]*/, "")
    : before.replace(/,\s*$/, "") + after;
  return rest.split("\n");
}

/** Comments and empty lines after a table. They may belong to the next table. */
function afterLastKey(table: readonly string[]): string[] {
  const last = table.findLastIndex((line) => line.trim() && !line.trimStart().startsWith("#"));
  return table.slice(last + 1);
}

function ensureRules(text: string, wanted: readonly string[]): void {
  const [found, expected] = [keysOf(text).sort(), [...wanted].sort()];
  if (JSON.stringify(found) !== JSON.stringify(expected))
    throw new Error("the file is written in a way that Bascule cannot extend; edit it by hand");
}

function keysOf(text: string): string[] {
  return readRules(text, "", "person").rules.map(keyOf);
}

function keyOf({ kind, words, agent }: Pick<FileRule, "kind" | "words" | "agent">): string {
  return JSON.stringify([kind, words, agent]);
}
