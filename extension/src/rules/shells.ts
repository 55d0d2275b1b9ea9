/** Commands that run a text or a file as shell commands. */
import type { Dialect } from "./command_tree";
import { baseName } from "./rule_matching";
import type { ShellWord } from "./shell_words";

/** The input that a shell or `eval` would run. */
export type ShellInput =
  /** A text; undefined if the text is unknown. `word` is the word that contains the text. */
  | {
      readonly kind: "text";
      readonly text: string | undefined;
      readonly word: ShellWord;
      readonly dialect: Dialect;
      /** Why the command needs approval, whatever its text does; undefined if it does not. */
      readonly problem: string | undefined;
      readonly sameShell: boolean;
    }
  /** The shell runs its standard input. */
  | { readonly kind: "input" }
  /** The shell runs a file named in the arguments. */
  | { readonly kind: "file" }
  | { readonly kind: "nothing" }
  | { readonly kind: "unclear"; readonly reason: string };

const PARSED_SHELLS: Readonly<Record<string, Dialect>> = { bash: "bash", sh: "sh", dash: "sh" };
const OTHER_SHELLS = new Set(["ash", "csh", "fish", "ksh", "mksh", "rbash", "tcsh", "zsh"]);
/** Letters of options that do not change how the shell reads a text. */
const HARMLESS_LETTERS = /^[-+][ceflnuvx]+$/;
const HARMLESS_LONG = new Set(["--login", "--norc", "--noprofile", "--verbose"]);
const HARMLESS_NAMES = new Set([
  ...["errexit", "noexec", "noglob", "nounset", "pipefail", "verbose", "xtrace"],
]);
const STANDARD_INPUT = /^(?:-|\/dev\/(?:stdin|fd\/.*)|\/proc\/.*)$/s;

export function isShell(name: string): boolean {
  return Object.hasOwn(PARSED_SHELLS, name) || OTHER_SHELLS.has(name);
}

/** The input that a shell command runs; undefined for other commands. The first word is known. */
export function shellInput(words: readonly ShellWord[]): ShellInput | undefined {
  const [first] = words;
  const written = first?.value ?? "";
  if (!first) return undefined;
  if (written === "eval") return evalInput(words);
  const name = baseName(written);
  if (!isShell(name)) return undefined;
  return new ShellArguments(words, PARSED_SHELLS[name]).input();
}

function evalInput(words: readonly ShellWord[]): ShellInput {
  const texts = words.slice(words[1]?.value === "--" ? 2 : 1);
  const [first] = texts;
  const last = texts.at(-1);
  if (!first || !last) return { kind: "nothing" };
  const known = texts.every(({ value }) => value !== undefined);
  const text = known ? texts.map(({ value }) => value).join(" ") : undefined;
  const word = { ...first, end: last.end };
  return { kind: "text", text, word, dialect: "bash", problem: undefined, sameShell: true };
}

class ShellArguments {
  private at = 1;
  private runsText = false;
  private readsInput = false;
  /** `--version` and `--help` end the shell before it runs anything. */
  private printsOnly = false;

  constructor(
    private readonly words: readonly ShellWord[],
    private readonly dialect: Dialect | undefined,
  ) {}

  input(): ShellInput {
    const problem = this.skipOptions();
    if (this.printsOnly) return { kind: "file" };
    const word = this.words[this.at];
    if (this.runsText) return this.text(word, problem);
    if (problem !== undefined) return { kind: "unclear", reason: problem };
    const reads = "The shell runs what it reads from its input.";
    if (this.readsInput) return { kind: "unclear", reason: reads };
    if (!word) return { kind: "input" };
    if (word.value === undefined)
      return { kind: "unclear", reason: `The shell would run ${word.text}, which is not known.` };
    return STANDARD_INPUT.test(word.value) ? { kind: "unclear", reason: reads } : { kind: "file" };
  }

  private text(word: ShellWord | undefined, problem: string | undefined): ShellInput {
    if (!word) return { kind: "unclear", reason: "The shell is given no text to run." };
    if (!this.dialect)
      return { kind: "unclear", reason: "The text for this shell is not understood." };
    const { dialect } = this;
    const text = word.value;
    return { kind: "text", text, word, dialect, problem, sameShell: false };
  }

  /** Returns a reason if an option is not known to be harmless. */
  private skipOptions(): string | undefined {
    let problem: string | undefined;
    for (; ; this.at++) {
      const word = this.words[this.at];
      if (!word || !/^[-+]./s.test(word.prefix)) return problem;
      const { value } = word;
      if (value === "--") {
        this.at++;
        return problem;
      }
      this.printsOnly = value === "--version" || value === "--help";
      if (this.printsOnly) return problem;
      problem = this.option(word) ?? problem;
    }
  }

  private option({ value, text }: ShellWord): string | undefined {
    const unclear = `The option ${text} of the shell is not known to be harmless.`;
    if (value === undefined) return unclear;
    if (/^[-+][A-Za-z]*[oO]$/.test(value)) this.at++;
    if (/^--(?:rcfile|init-file)$/.test(value)) this.at++;
    // Bash takes `+c` and `+s` for `-c` and `-s`.
    if (/^[-+][A-Za-z]*c/.test(value)) this.runsText = true;
    if (/^[-+][A-Za-z]*s/.test(value)) this.readsInput = true;
    if (HARMLESS_LETTERS.test(value) || HARMLESS_LONG.has(value)) return undefined;
    const named = /^[-+][ceflnuvx]*o$/.test(value) && this.words[this.at]?.value;
    return named && HARMLESS_NAMES.has(named) ? undefined : unclear;
  }
}
