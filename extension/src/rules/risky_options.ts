/** Options that make an ordinary program run other programs or write files. */
import { baseName } from "./rule_matching";
import { isHarmlessSedScript, sedScripts } from "./sed_script";
import type { ShellWord } from "./shell_words";

/** A word that the user is asked about, unless the allow rule itself contains it. */
export interface Risk {
  /** The index of the word; Infinity if no rule can contain it. */
  readonly at: number;
  readonly reason: string;
}

interface OptionTable {
  /** Letters of risky short options. */
  readonly short: string;
  /** Full names of risky long options. Their abbreviations are risky too. */
  readonly long: readonly string[];
  /** Letters of short options that take a value: the rest of the same word is not an option. */
  readonly valued: string;
}

const TABLES: Readonly<Record<string, OptionTable>> = {
  rg: {
    short: "z",
    long: ["--pre", "--hostname-bin", "--search-zip"],
    valued: "ABCEMTdefgjmrt",
  },
  sort: {
    short: "oT",
    long: ["--output", "--compress-program", "--temporary-directory", "--files0-from"],
    valued: "kSt",
  },
  man: { short: "PH", long: ["--html", "--pager"], valued: "CELMRSemprs" },
  fd: { short: "xX", long: ["--exec", "--exec-batch"], valued: "CESTcdejot" },
  tree: { short: "o", long: ["--output"], valued: "HILPT" },
  jq: { short: "f", long: ["--from-file"], valued: "L" },
  file: { short: "Cmf", long: ["--compile", "--magic-file", "--files-from"], valued: "eFP" },
  curl: {
    short: "oOK",
    long: ["--output", "--remote-name", "--remote-name-all", "--config"],
    valued: "ACDEFHPQTUXYbcdehmrtuwxyz",
  },
};
const SED: OptionTable = { short: "if", long: ["--in-place", "--file"], valued: "el" };
const GIT_BEFORE: OptionTable = {
  short: "cCp",
  long: [
    "--paginate",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
  ],
  valued: "",
};
const GIT_AFTER = [
  "--output",
  "--ext-diff",
  "--textconv",
  "--exec",
  "--upload-pack",
  "--receive-pack",
];
const GIT_SUBCOMMANDS: Readonly<Record<string, OptionTable>> = {
  grep: { short: "O", long: [...GIT_AFTER, "--open-files-in-pager"], valued: "ABCefm" },
  rebase: { short: "x", long: GIT_AFTER, valued: "CSXs" },
};
const GIT_VALUED = /^(?:-[cC]|--(?:config-env|git-dir|work-tree|namespace|super-prefix))$/;
/** Subcommands whose `-m` takes a message. In `git log` and others it takes no value. */
const GIT_MESSAGES = new Set([
  ...["cherry-pick", "commit", "merge", "notes", "revert", "stash", "tag"],
]);
const RISKY_FIND_ACTIONS = new Set(["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"]);
const ALWAYS_RISKY = new Set(["awk", "gawk", "mawk", "nawk", "tar", "tee"]);
const EXT_ADDRESS = /(?:^|=)ext::/;
const UNIQ_VALUED = ["--skip-fields", "--skip-chars", "--check-chars"];
const ALIASES: Readonly<Record<string, string>> = { fdfind: "fd" };

/** Words about which the user is asked even if a rule matches. The first word must be known. */
export function risksOf(words: readonly ShellWord[]): Risk[] {
  const written = baseName(words[0]?.value ?? "");
  const program = ALIASES[written] ?? written;
  if (ALWAYS_RISKY.has(program))
    return [{ at: Infinity, reason: `${program} can write files and run programs.` }];
  if (program === "git") return gitRisks(words);
  if (program === "sed") return [...unknownRisks(words), ...sedRisks(words)];
  if (program === "find") return [...unknownRisks(words), ...findRisks(words)];
  if (program === "uniq") return uniqRisks(words);
  const table = Object.hasOwn(TABLES, program) ? TABLES[program] : undefined;
  if (!table) return [];
  return [...(program === "rg" ? unknownRisks(words) : []), ...optionRisks(words, table)];
}

/** For programs with many risky options: an unknown word may be one of them. */
function unknownRisks(words: readonly ShellWord[]): Risk[] {
  return words.flatMap((word, at) => (word.value === undefined ? [unknownRisk(word, at)] : []));
}

function unknownRisk({ text }: ShellWord, at: number): Risk {
  return { at, reason: `${text} is not known and may be an option that runs or writes.` };
}

function optionRisks(
  words: readonly ShellWord[],
  table: OptionTable,
  { from = 1 }: { from?: number } = {},
): Risk[] {
  const risks: Risk[] = [];
  for (const [at, word] of words.entries()) {
    if (at < from) continue;
    if (word.value === "--" && endsOptions(words[at - 1], table, at === from)) break;
    if (isRisky(word, table)) risks.push({ at, reason: `The option ${word.text} runs or writes.` });
  }
  return risks;
}

/** `--` ends the options unless it is the value of the option before it. */
function endsOptions(
  before: ShellWord | undefined,
  { valued }: OptionTable,
  isFirst: boolean,
): boolean {
  if (isFirst) return true;
  const value = before?.value;
  if (value === undefined) return false;
  if (!value.startsWith("-")) return true;
  if (value.startsWith("--")) return value.includes("=");
  return valued !== "" && !Array.from(value).some((letter) => valued.includes(letter));
}

function isRisky(word: ShellWord, table: OptionTable): boolean {
  const { prefix, value } = word;
  // A brace expansion such as `{-o,x}` can become an option, but has no literal prefix.
  if (value === undefined && word.text.startsWith("{") && word.text.includes("-")) return true;
  if (prefix.startsWith("--")) return isRiskyLong(prefix, value !== undefined, table);
  if (!prefix.startsWith("-")) return false;
  for (const letter of prefix.slice(1)) {
    if (table.short.includes(letter)) return true;
    if (table.valued.includes(letter)) return false;
  }
  return value === undefined;
}

function isRiskyLong(text: string, isWhole: boolean, { long }: OptionTable): boolean {
  const name = text.replace(/=.*/s, "");
  if (name === "--") return !isWhole;
  return long.some(
    (option) => option.startsWith(name) || (!isWhole && name === text && name.startsWith(option)),
  );
}

function gitRisks(words: readonly ShellWord[]): Risk[] {
  const at = subcommandIndex(words);
  const before = optionRisks(words.slice(0, at), GIT_BEFORE);
  const subcommand = words[at]?.value ?? "";
  const table = (Object.hasOwn(GIT_SUBCOMMANDS, subcommand) && GIT_SUBCOMMANDS[subcommand]) || {
    short: "",
    long: GIT_AFTER,
    valued: "",
  };
  const messages = GIT_MESSAGES.has(subcommand) ? messageIndexes(words, at) : new Set<number>();
  const others = words.map((word, each) => (messages.has(each) ? MESSAGE : word));
  return [
    ...before,
    ...unknownRisks(others),
    ...optionRisks(others, table, { from: at + 1 }),
    ...others.flatMap((word, each) =>
      EXT_ADDRESS.test(word.prefix)
        ? [{ at: each, reason: "An ext:: address runs a program." }]
        : [],
    ),
  ];
}

function subcommandIndex(words: readonly ShellWord[]): number {
  let at = 1;
  while (words[at]?.prefix.startsWith("-")) at += GIT_VALUED.test(words[at]?.value ?? "") ? 2 : 1;
  return Math.min(at, words.length);
}

/** Replaces the text of a message, which is never an option. */
const MESSAGE: ShellWord = {
  text: "",
  value: "message",
  prefix: "message",
  splits: false,
  start: 0,
  end: 0,
};

/** Indexes of words that are or contain the value of `-m`, except words that may split. */
function messageIndexes(words: readonly ShellWord[], subcommand: number): Set<number> {
  const found = new Set<number>();
  for (let at = subcommand + 1; at < words.length; at++) {
    const word = words[at];
    if (!word || word.value === "--") break;
    const isMessage = /^-[aenqv]*m$/.test(word.value ?? "");
    const value = words[at + 1];
    if (isMessage && value && !value.splits) found.add(++at);
    else if (/^-m./s.test(word.prefix) && !word.splits) found.add(at);
    else if (word.prefix === "-m" && word.value === undefined && !word.splits) found.add(at);
  }
  return found;
}

function findRisks(words: readonly ShellWord[]): Risk[] {
  return words.flatMap(({ value, text }, at) =>
    RISKY_FIND_ACTIONS.has(value ?? "") ? [{ at, reason: `${text} deletes or writes files.` }] : [],
  );
}

function uniqRisks(words: readonly ShellWord[]): Risk[] {
  let files = 0;
  for (let at = 1; at < words.length; at++) {
    const word = words[at];
    if (word?.value === "--") {
      files += words.length - at - 1;
      at = words.length - 1;
    } else if (!word?.prefix.startsWith("-") || word.value === "-") {
      // A word that may become several words may be the second file as well.
      files += word?.splits ? 2 : 1;
    } else if (takesNextInUniq(word.value ?? "")) at++;
    if (files > 1) return [{ at, reason: "uniq writes its second file." }];
  }
  return [];
}

function takesNextInUniq(value: string): boolean {
  if (value.startsWith("--")) return UNIQ_VALUED.some((option) => option.startsWith(value));
  return /^-[^fsw]*[fsw]$/.test(value);
}

function sedRisks(words: readonly ShellWord[]): Risk[] {
  const reason = "The sed script does more than print, delete or replace.";
  const scripts = sedScripts(words);
  return [
    ...optionRisks(words, SED),
    ...scripts.flatMap(({ at, script }) =>
      scripts.length === 1 && isHarmlessSedScript(script) ? [] : [{ at, reason }],
    ),
  ];
}
