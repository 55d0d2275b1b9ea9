/** Proposes allow rules after the verdict `ask`: one for each part that lacks a rule. */
import type { CommandDecision } from "./decision";
import { baseName, type CommandRule } from "./rule_matching";
import { isShell } from "./shells";
import type { ShellWord } from "./shell_words";
import { isWrapper } from "./wrappers";

/**
 * Number of words that a proposed rule has. Programs that are not listed get a rule of one word.
 *
 * The longest matching entry decides. A command with fewer words gets no proposal: a rule for
 * `git` or `npm run` alone would allow too much.
 */
const RULE_WORD_COUNTS: Readonly<Record<string, number>> = {
  apt: 2,
  "apt-get": 2,
  aws: 3,
  az: 3,
  brew: 2,
  bun: 2,
  "bun run": 3,
  bundle: 2,
  "bundle exec": 3,
  bunx: 2,
  cargo: 2,
  composer: 2,
  docker: 2,
  "docker compose": 3,
  "docker container": 3,
  "docker image": 3,
  dotnet: 2,
  gcloud: 3,
  gh: 3,
  git: 2,
  "git config": 3,
  "git remote": 3,
  "git stash": 3,
  "git submodule": 3,
  "git worktree": 3,
  go: 2,
  "go mod": 3,
  "go tool": 3,
  gradle: 2,
  "./gradlew": 2,
  helm: 2,
  just: 2,
  kubectl: 2,
  make: 2,
  mvn: 2,
  npm: 2,
  "npm run": 3,
  "npm exec": 3,
  npx: 2,
  pip: 2,
  pip3: 2,
  pipx: 2,
  "pipx run": 3,
  pnpm: 2,
  "pnpm run": 3,
  "pnpm exec": 3,
  "pnpm dlx": 3,
  podman: 2,
  "podman compose": 3,
  poetry: 2,
  "poetry run": 3,
  rake: 2,
  rustup: 2,
  systemctl: 2,
  terraform: 2,
  uv: 2,
  "uv pip": 3,
  "uv run": 3,
  uvx: 2,
  yarn: 2,
  "yarn run": 3,
};

/** Programs that run any text or file given to them, or destroy data. They get no proposal. */
const NEVER_PROPOSED = new Set([
  ...["awk", "bpython", "deno", "erl", "gdb", "ghci", "groovy", "ipython", "irb", "java", "julia"],
  ...["lua", "luajit", "node", "nodejs", "osascript", "perl", "php", "pypy", "pypy3", "python"],
  ...["r", "rscript", "ruby", "scala", "swift", "tclsh", "ts-node", "tsx"],
  ...["busybox", "chroot", "dd", "flock", "parallel", "rm", "script", "ssh", "strace", "su"],
  ...["unshare", "watch"],
]);
const VERSION_SUFFIX = /[-.\d]+$/;

export interface RuleProposal {
  readonly rule: CommandRule;
  /** The commands of the text that the rule would allow. */
  readonly commands: readonly string[];
}

/** Proposes rules only if the verdict is `ask`, and only for parts that need only a rule. */
export function proposeRules({ verdict, parts }: CommandDecision): RuleProposal[] {
  if (verdict !== "ask") return [];
  const found = new Map<string, { rule: CommandRule; commands: string[] }>();
  for (const { text, lacksRule } of parts) {
    const rule = lacksRule && proposedRule(lacksRule);
    if (!rule) continue;
    const key = JSON.stringify(rule);
    const proposal = found.get(key) ?? { rule, commands: [] };
    proposal.commands.push(text);
    found.set(key, proposal);
  }
  return [...found.values()];
}

function proposedRule(words: readonly ShellWord[]): CommandRule | undefined {
  const count = wordCount(words);
  const rule = words.slice(0, count).flatMap(({ value }) => (value === undefined ? [] : [value]));
  const names = rule.slice(1).every((word) => word !== "" && !word.startsWith("-"));
  return rule.length === count && names && !rule.some(runsAnything) ? rule : undefined;
}

function wordCount(words: readonly ShellWord[]): number {
  const [first, second] = words.map(({ value }) => value ?? "");
  const pair = `${first ?? ""} ${second ?? ""}`;
  const key = [pair, first ?? ""].find((each) => Object.hasOwn(RULE_WORD_COUNTS, each));
  return (key === undefined ? undefined : RULE_WORD_COUNTS[key]) ?? 1;
}

/** Checks any word of a rule, because of commands such as `uv run python` and `npx tsx`. */
function runsAnything(word: string): boolean {
  const name = baseName(word).toLowerCase();
  const plain = name.replace(VERSION_SUFFIX, "");
  return isShell(name) || isWrapper(name) || NEVER_PROPOSED.has(name) || NEVER_PROPOSED.has(plain);
}
