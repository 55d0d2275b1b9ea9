/** Finds the command that a wrapper (`env`, `timeout`, `xargs`, …) runs among its arguments. */
import { baseName } from "./rule_matching";
import { unknownWord, type ShellWord } from "./shell_words";

/** The commands that a wrapper would run, and how. */
export interface Wrapped {
  /** Commands that the wrapper runs; empty if it runs nothing. */
  readonly commands: readonly (readonly ShellWord[])[];
  /** Variables that the wrapper sets for the commands. */
  readonly variables: readonly { readonly name: string; readonly word: ShellWord }[];
  /** Why the user is asked, whatever the wrapper runs; undefined if there is no reason. */
  readonly problem: string | undefined;
  /** Whether the command runs in the same shell, so that `cd` has an effect. */
  readonly sameShell: boolean;
  /** Whether the wrapper does something itself and needs an allow rule. */
  readonly needsRule: boolean;
}

interface WrapperOptions {
  /** Harmless options without a value. */
  readonly flags: readonly string[];
  /** Harmless options with a value, which is the rest of the word or the next word. */
  readonly valued: readonly string[];
  /** Harmless options whose value, if any, is the rest of the word. */
  readonly optional?: readonly string[];
  /** Risky options with a value. Listed so that deny rules find the command after the value. */
  readonly risky?: readonly string[];
  /** Number of words before the command, such as the duration of `timeout`. */
  readonly operands?: number;
  readonly sameShell?: boolean;
}

const WRAPPERS: Readonly<Record<string, WrapperOptions>> = {
  env: {
    flags: ["-", "-i", "--ignore-environment", "-0", "--null", "-v", "--debug"],
    valued: ["-u", "--unset"],
    risky: ["-C", "--chdir", "-S", "--split-string"],
  },
  timeout: {
    flags: ["-v", "--verbose", "--preserve-status", "--foreground", "-f", "-p"],
    valued: ["-s", "--signal", "-k", "--kill-after"],
    operands: 1,
  },
  nice: { flags: [], valued: ["-n", "--adjustment"] },
  nohup: { flags: [], valued: [] },
  time: {
    flags: ["-p", "--portability", "-v", "--verbose", "-q", "--quiet"],
    valued: ["-f", "--format"],
    risky: ["-o", "--output"],
    sameShell: true,
  },
  command: { flags: ["-p"], valued: [], sameShell: true },
  builtin: { flags: [], valued: [], sameShell: true },
  stdbuf: { flags: [], valued: ["-i", "--input", "-o", "--output", "-e", "--error"] },
  setsid: { flags: ["-f", "--fork", "-w", "--wait"], valued: [] },
  ionice: { flags: ["-t", "--ignore"], valued: ["-c", "--class", "-n", "--classdata"] },
  xargs: {
    flags: ["-0", "--null", "-r", "--no-run-if-empty", "-t", "--verbose", "-x", "--exit"],
    valued: [
      ...["-n", "--max-args", "-L", "-P", "--max-procs", "-I", "-d", "--delimiter"],
      ...["-s", "--max-chars", "-E", "-a", "--arg-file"],
    ],
    optional: ["-i", "--replace", "-l", "--max-lines", "-e", "--eof"],
    risky: ["--process-slot-var"],
  },
  sudo: {
    flags: [],
    valued: [],
    risky: [
      ...["-u", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt", "-C", "--close-from"],
      ...["-r", "--role", "-t", "--type", "-T", "--command-timeout", "-U", "--other-user"],
      ...["-D", "--chdir", "-R", "--chroot"],
    ],
  },
  doas: { flags: [], valued: [], risky: ["-u", "-C", "-a"] },
  exec: { flags: [], valued: [], risky: ["-a"] },
};
/** Wrappers that always need approval. Deny rules still apply to the command they run. */
const ALWAYS_ASK = new Set(["sudo", "doas", "exec"]);
const ASSIGNMENT = /^([^=]*)=/s;
/** Options of xargs that name the text to replace. */
const XARGS_REPLACE_OPTIONS = new Set(["-I", "-i", "--replace"]);
const FIND_EXEC_OPTIONS = new Set(["-exec", "-execdir", "-ok", "-okdir"]);

export function isWrapper(name: string): boolean {
  return Object.hasOwn(WRAPPERS, name);
}

/** Unwraps a command; undefined if it is not a wrapper. The first word must be known. */
export function unwrap(words: readonly ShellWord[]): Wrapped | undefined {
  const written = words[0]?.value ?? "";
  const name = baseName(written);
  if (name === "find") return unwrapFind(words);
  if (!Object.hasOwn(WRAPPERS, name)) return undefined;
  if (name === "command" && isQuery(words)) return queryResult(words);
  const options = WRAPPERS[name];
  return options && new Unwrapping(name, words, options).result();
}

const NOTHING_RUN: Wrapped = {
  commands: [],
  variables: [],
  problem: undefined,
  sameShell: true,
  needsRule: false,
};

/** `command -v` and `-V` only print what a name is. */
function isQuery(words: readonly ShellWord[]): boolean {
  return commandOptions(words).some((option) => /^-[^-]*[vV]/.test(option));
}

function queryResult(words: readonly ShellWord[]): Wrapped {
  const unknown = commandOptions(words).find((option) => !/^-[pvV]+$/.test(option));
  if (unknown === undefined) return NOTHING_RUN;
  return { ...NOTHING_RUN, problem: `The option ${unknown} of command is not known.` };
}

/** The options before the first name. */
function commandOptions(words: readonly ShellWord[]): string[] {
  const options: string[] = [];
  for (const { value } of words.slice(1)) {
    if (value === undefined || value === "--" || !/^-./s.test(value)) break;
    options.push(value);
  }
  return options;
}

class Unwrapping {
  private at = 1;
  private problem: string | undefined;
  private replaced: string | undefined;
  private split: ShellWord[] = [];
  private readonly variables: { name: string; word: ShellWord }[] = [];

  constructor(
    private readonly name: string,
    private readonly words: readonly ShellWord[],
    private readonly options: WrapperOptions,
  ) {
    if (ALWAYS_ASK.has(name)) this.problem = `${name} always needs approval.`;
  }

  result(): Wrapped {
    this.skipOptions();
    if (this.name === "env" || this.name === "sudo") this.skipAssignments();
    for (let left = this.options.operands ?? 0; left > 0; left--) this.skipOperand();
    const command = this.command();
    // Without a command, `env` and `nice` print something, so they need a rule like other commands.
    const needsRule = !command.length;
    return {
      commands: command.length ? [command] : [],
      variables: this.variables,
      problem: this.problem,
      sameShell: this.options.sameShell ?? false,
      needsRule,
    };
  }

  private skipOptions(): void {
    for (;;) {
      const word = this.words[this.at];
      if (!word || !word.prefix.startsWith("-")) {
        // A word of which not even the start is known may be an option, or several.
        if (word && word.value === undefined && !word.prefix && !this.options.operands)
          this.unknown(word);
        return;
      }
      this.at++;
      if (word.value === "--") return;
      this.option(word);
    }
  }

  private option(word: ShellWord): void {
    const { value } = word;
    if (value === undefined) return this.unknown(word);
    if (this.options.flags.includes(value) || this.isNumber(value)) return;
    if (value.startsWith("--")) this.longOption(word, value);
    else this.shortOptions(word, value);
  }

  private longOption(word: ShellWord, value: string): void {
    const [given = value] = value.split("=", 1);
    const attached = given === value ? undefined : value.slice(given.length + 1);
    this.apply(word, { name: this.fullName(given), attached });
  }

  /** Short options in one word, such as `-0n1`: the first option that takes a value is the last. */
  private shortOptions(word: ShellWord, value: string): void {
    const { valued, optional = [], risky = [] } = this.options;
    if (value === "-") this.ask(`The option - of ${this.name} is not known to be harmless.`);
    for (let at = 1; at < value.length; at++) {
      const name = `-${value.charAt(at)}`;
      const takesValue = [...valued, ...optional, ...risky].includes(name);
      const attached = takesValue ? value.slice(at + 1) || undefined : undefined;
      this.apply(word, { name, attached });
      if (takesValue) return;
    }
  }

  private apply(
    word: ShellWord,
    { name, attached }: { name: string; attached: string | undefined },
  ): void {
    const { flags, valued, optional = [], risky = [] } = this.options;
    if (![...flags, ...valued, ...optional].includes(name))
      this.ask(`The option ${word.text} of ${this.name} is not known to be harmless.`);
    const takesNext = attached === undefined && [...valued, ...risky].includes(name);
    const argument = takesNext ? this.argument(name) : attached;
    if (name === "-S" || name === "--split-string") this.splitString(word, argument);
    if (XARGS_REPLACE_OPTIONS.has(name)) this.replaced = argument || "{}";
  }

  /** The full name of a long option: an abbreviation counts if it is unique. */
  private fullName(given: string): string {
    const { flags, valued, optional = [], risky = [] } = this.options;
    const known = [...flags, ...valued, ...optional, ...risky];
    if (known.includes(given) || given === "--") return given;
    const [only = given, ...others] = known.filter((each) => each.startsWith(given));
    return others.length ? given : only;
  }

  /** The next word, as the value of an option. */
  private argument(name: string): string | undefined {
    const word = this.words[this.at++];
    if (!word) this.ask(`The option ${name} of ${this.name} has no value.`);
    else if (word.value === undefined) this.unknown(word);
    return word?.value;
  }

  private isNumber(value: string): boolean {
    return this.name === "nice" && /^--?\+?\d+$/.test(value);
  }

  private splitString(word: ShellWord, text: string | undefined): void {
    const parts = (text ?? "").split(/\s+/).filter(Boolean);
    this.split = parts.map((value) => ({
      ...word,
      text: value,
      value,
      prefix: value,
      splits: false,
    }));
  }

  private skipAssignments(): void {
    for (;;) {
      const word = this.words[this.at];
      const name = ASSIGNMENT.exec(word?.prefix ?? "")?.[1];
      if (!word || name === undefined) {
        if (word && word.value === undefined) this.unknown(word);
        return;
      }
      // An unquoted expansion may add words, so the next word may not be the command.
      if (word.splits) this.unknown(word);
      this.variables.push({ name, word });
      this.at++;
    }
  }

  private skipOperand(): void {
    const word = this.words[this.at];
    if (word && word.value === undefined) this.unknown(word);
    this.at++;
  }

  private command(): ShellWord[] {
    const command = [...this.split, ...this.words.slice(this.at)];
    return this.name === "xargs" ? this.xargsCommand(command) : command;
  }

  private xargsCommand(given: readonly ShellWord[]): ShellWord[] {
    const [name] = this.words;
    if (!name) return [];
    const echo = { ...name, text: "echo", value: "echo", prefix: "echo" };
    const command = given.length ? given : [echo];
    const { replaced } = this;
    if (replaced !== undefined) return command.map((word) => withUnknown(word, replaced));
    return [...command, unknownWord(name, "what xargs appends", { splits: true })];
  }

  private unknown({ text }: ShellWord): void {
    this.ask(`${text} is not known and may be an option of ${this.name}.`);
  }

  private ask(reason: string): void {
    this.problem ??= reason;
  }
}

/** `find` runs the command between `-exec` and `;` or `+`, with file names in place of `{}`. */
function unwrapFind(words: readonly ShellWord[]): Wrapped | undefined {
  const commands: ShellWord[][] = [];
  let problem: string | undefined;
  for (let at = 1; at < words.length; at++) {
    if (!FIND_EXEC_OPTIONS.has(words[at]?.value ?? "")) continue;
    const end = words.findIndex((word, each) => each > at && endsFindCommand(words, each, word));
    if (end < 0) problem = "The command of find -exec does not end.";
    const command = words.slice(at + 1, end < 0 ? undefined : end);
    if (!command.length) problem = "find -exec has no command.";
    else commands.push(command.map((word) => withUnknown(word, "{}")));
    if (end < 0) break;
    at = end;
  }
  if (!commands.length && problem === undefined) return undefined;
  return { commands, variables: [], problem, sameShell: false, needsRule: true };
}

function endsFindCommand(words: readonly ShellWord[], at: number, { value }: ShellWord): boolean {
  return value === ";" || (value === "+" && words[at - 1]?.value === "{}");
}

function withUnknown(word: ShellWord, replaced: string): ShellWord {
  const known = word.prefix.indexOf(replaced);
  if (known < 0) return word;
  return { ...word, value: undefined, prefix: word.prefix.slice(0, known) };
}
