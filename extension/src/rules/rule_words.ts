/** The words of a rule in a file: `git log`, or in the form of other tools `Bash(git log:*)`. */

const PASTED = /^Bash\((?<words>.*?)(?<rest>:\*| \*)?\)$/s;
const BLANK = /[ \t\r\n]/;

/** Throws an `Error` that says what is wrong with the rule. */
export function ruleWords(text: string): string[] {
  const shown = JSON.stringify(text);
  const pasted = PASTED.exec(text.trim())?.groups;
  if (pasted && (!pasted["rest"] || pasted["words"]?.includes("*")))
    throw new Error(
      `the rule ${shown} has another meaning here: a rule is the beginning of a command, ` +
        "without wildcards; write for example `git log` or `Bash(git log:*)`",
    );
  const words = splitWords(pasted?.["words"] ?? text);
  if (!words) throw new Error(`the rule ${shown} has an open quote`);
  if (!words.length) throw new Error(`the rule ${shown} has no words; name a command`);
  return words;
}

/** Splits like a shell, without expansions. Undefined if a quote is open. */
function splitWords(text: string): string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    const next = text.charAt(at + 1);
    if (quote) {
      if (char === quote) quote = "";
      else if (quote === '"' && char === "\\" && (next === '"' || next === "\\"))
        word = (word ?? "") + text.charAt(++at);
      else word = (word ?? "") + char;
    } else if (BLANK.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word ??= "";
      if (char === "'" || char === '"') quote = char;
      else if (char !== "\\") word += char;
      else if (next) word += text.charAt(++at);
      else return undefined;
    }
  }
  if (quote) return undefined;
  return word === undefined ? words : [...words, word];
}
