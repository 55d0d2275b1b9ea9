/** Compares rules, which are lists of words, with the words of a command. */
import type { ShellWord } from "./shell_words";

/** The first words of the commands that the rule applies to, after quote removal. */
export type CommandRule = readonly string[];

/** An allow rule compares words as they are written, and never matches an unknown word. */
export function matchesAsWritten(rule: CommandRule, words: readonly ShellWord[]): boolean {
  return rule.length > 0 && rule.every((each, at) => words[at]?.value === each);
}

/**
 * Whether a deny or ask rule matches. Its first word is compared with the program as written and with
 * the last part of the program's path.
 *
 * `maybe` if the result depends on an unknown word.
 */
export function matchesStrictly(
  rule: CommandRule,
  words: readonly ShellWord[],
): "yes" | "maybe" | "no" {
  if (!rule.length) return "no";
  let result: "yes" | "maybe" = "yes";
  for (const [at, wanted] of rule.entries()) {
    const word = words[at];
    if (!word) return "no";
    if (word.value === undefined) {
      // The word may become no word or several, so the positions of later words are unknown.
      if (word.splits) return "maybe";
      result = "maybe";
    } else if (word.value !== wanted && (at > 0 || baseName(word.value) !== wanted)) return "no";
  }
  return result;
}

export function baseName(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}
