/**
 * Decides whether a command text may run: allow, ask or deny, from three lists of rules.
 *
 * The text is parsed, and every part that would run must match an allow rule. The strictest part
 * decides: deny over ask over allow. The decision runs nothing and reads no file. It only resolves
 * links, if the caller passes a function for this.
 */
import { posix } from "node:path";
import { PLAIN_NAME } from "./expansions";
import {
  commandTree,
  type Dialect,
  type ShellRedirection,
  type SimpleStep,
  type Step,
} from "./command_tree";
import { risksOf } from "./risky_options";
import { matchesAsWritten, matchesStrictly, type CommandRule } from "./rule_matching";
import { shellInput, type ShellInput } from "./shells";
import type { ShellWord, TextSpan } from "./shell_words";
import { maySetForCommand, maySetInShell } from "./variables";
import { unwrap, type Wrapped } from "./wrappers";
import {
  isInFolders,
  isProtectedPath,
  possiblePaths,
  redirectionProblem,
  type Directories,
  type WritableFolders,
} from "./write_targets";

export type CommandVerdict = "allow" | "ask" | "deny";

export interface CommandRules {
  readonly allow: readonly CommandRule[];
  readonly ask: readonly CommandRule[];
  readonly deny: readonly CommandRule[];
}

export interface CommandPlace extends WritableFolders {
  /** The shell's directory, absolute. */
  readonly cwd: string;
}

/** Something that the text would do, and the verdict on it. */
export interface CommandPart extends TextSpan {
  readonly text: string;
  readonly verdict: CommandVerdict;
  /** A sentence for the person who is asked. */
  readonly reason: string;
  /** The rule that decided; null if no rule did. */
  readonly rule: CommandRule | null;
  /** The words of a command that needs approval only because no allow rule matches. */
  readonly lacksRule: readonly ShellWord[] | null;
  /** The name of the command; null if the part is no command, or the name is unknown. */
  readonly name: string | null;
  /**
   * Needs approval even if the agent may run anything: an ask rule matches, a deny or ask rule
   * could match, or it writes a protected file.
   */
  readonly mustAsk: boolean;
}

export interface CommandDecision {
  readonly verdict: CommandVerdict;
  /** In the order in which bash would run them, substitutions first. */
  readonly parts: readonly CommandPart[];
}

export function decideCommand(
  text: string,
  rules: CommandRules,
  place: CommandPlace,
): CommandDecision {
  return decisionOf(new Decider(rules, place).decide(text).parts);
}

export function decisionOf(parts: readonly CommandPart[]): CommandDecision {
  return { verdict: strictest(parts), parts };
}

const STRICTNESS: Readonly<Record<CommandVerdict, number>> = { allow: 0, ask: 1, deny: 2 };
/** Commands that need no allow rule. */
const NEEDS_NO_RULE = new Set([":", "true", "false", "test", "[", "break", "continue"]);
/** Builtins that change how the shell runs later commands: a rule needs a second word. */
const CHANGES_SHELL = new Set([
  ...["source", ".", "trap", "alias", "unalias", "enable", "hash", "set", "shopt", "export"],
  ...["declare", "typeset", "readonly", "local", "unset", "bind", "complete", "mapfile", "read"],
  ...["history", "umask", "ulimit", "pushd", "popd"],
  // These builtins assign variables or run text too.
  ...["readarray", "compgen", "compopt", "getopts", "fc", "let"],
]);
/** With more possible directories than this, the directory counts as unknown. */
const MAX_DIRECTORIES = 16;
/** The user is asked about commands that are nested deeper than this. */
const MAX_DEPTH = 200;
/** A substitution in a subscript. Bash runs it when it evaluates the value as arithmetic. */
const RUNS_IN_ARITHMETIC = /\[.*[$`]/s;
const INPUT_OPERATORS = new Set(["<", "<>", "<&", "<<", "<<-", "<<<"]);

function strictest(parts: readonly { verdict: CommandVerdict }[]): CommandVerdict {
  return parts.reduce<CommandVerdict>(
    (worst, { verdict }) => (STRICTNESS[verdict] > STRICTNESS[worst] ? verdict : worst),
    "allow",
  );
}

interface Context {
  readonly directories: Directories;
  /** Whether standard input is a pipe, a file or a here-document. */
  readonly isPiped: boolean;
  /** The position of this text in the whole command; undefined for the whole command. */
  readonly place: TextSpan | undefined;
  /** Number of wrappers and shells around this command. */
  readonly depth: number;
}

/** The directories that the shell may be in after a step succeeded or failed. */
interface Ends {
  readonly success: Directories;
  readonly failure: Directories;
}

interface Opinion {
  readonly verdict: CommandVerdict;
  readonly reason: string;
  readonly rule?: CommandRule;
  readonly lacksRule?: readonly ShellWord[];
  readonly mustAsk?: boolean;
}

const askOpinion = (reason: string): Opinion => ({ verdict: "ask", reason });
const allowOpinion = (reason: string): Opinion => ({ verdict: "allow", reason });

class Decider {
  parts: CommandPart[] = [];

  constructor(
    private readonly rules: CommandRules,
    private readonly place: CommandPlace,
  ) {}

  decide(text: string): this {
    const directories = { paths: [this.place.cwd], orBelow: false };
    const context = { directories, isPiped: false, place: undefined, depth: 0 };
    this.text(text, { dialect: "bash", context, span: { start: 0, end: text.length } });
    return this;
  }

  private text(
    text: string,
    { dialect, context, span }: { dialect: Dialect; context: Context; span: TextSpan },
  ): Ends {
    const tree = commandTree(text, { dialect, place: context.place });
    if (typeof tree !== "string") return this.step(tree, context);
    this.add({ ...span, text }, askOpinion(tree));
    return { success: undefined, failure: undefined };
  }

  private step(step: Step, context: Context): Ends {
    switch (step.kind) {
      case "simple":
        return this.simple(step, context);
      case "sequence":
        return this.sequence(step.steps, context);
      case "andOr":
        return this.andOr(step, context);
      case "not": {
        const { success, failure } = this.step(step.step, context);
        return { success: failure, failure: success };
      }
      case "subshell":
        this.step(step.step, context);
        return unchangedEnds(context);
      case "pipeline":
        for (const [at, each] of step.steps.entries())
          this.step(each, at ? { ...context, isPiped: true } : context);
        return unchangedEnds(context);
      case "if":
        return this.conditional(step, context);
      case "loop":
        return this.loop(step, context);
      case "branches":
        return unionOfEnds(step.steps.map((each) => this.step(each, context)));
      case "redirected": {
        this.simple(step.header, context);
        const isPiped = context.isPiped || step.header.redirections.some(feedsInput);
        return this.step(step.step, { ...context, isPiped });
      }
    }
  }

  private sequence(steps: readonly Step[], context: Context): Ends {
    let ends = unchangedEnds(context);
    for (const [at, step] of steps.entries())
      ends = this.step(step, at ? { ...context, directories: directoriesAfter(ends) } : context);
    return ends;
  }

  private andOr({ first, rest }: Step & { kind: "andOr" }, context: Context): Ends {
    let left = this.step(first, context);
    for (const { operator, step } of rest) {
      const isAnd = operator === "&&";
      const directories = isAnd ? left.success : left.failure;
      const right = this.step(step, { ...context, directories });
      left = isAnd
        ? { success: right.success, failure: union(left.failure, right.failure) }
        : { success: union(left.success, right.success), failure: right.failure };
    }
    return left;
  }

  private conditional(step: Step & { kind: "if" }, context: Context): Ends {
    const test = this.step(step.test, context);
    const then = this.step(step.then, { ...context, directories: test.success });
    const otherwise = this.step(step.otherwise, { ...context, directories: test.failure });
    return unionOfEnds([then, otherwise]);
  }

  /** A loop may run `cd` any number of times, so it may end deeper in the tree. */
  private loop(step: Step & { kind: "loop" }, context: Context): Ends {
    const before = this.parts.length;
    const ends = this.iteration(step, context);
    const { directories } = context;
    if (!directories || directories.orBelow || isSubset(directoriesAfter(ends), directories))
      return ends;
    this.parts.length = before;
    return this.iteration(step, { ...context, directories: { ...directories, orBelow: true } });
  }

  private iteration(step: Step & { kind: "loop" }, context: Context): Ends {
    const test = this.step(step.test, context);
    const body = this.step(step.body, { ...context, directories: test.success });
    return unionOfEnds([test, body]);
  }

  private simple(step: SimpleStep, context: Context): Ends {
    for (const { step: substituted, isPiped } of step.substitutions)
      this.step(substituted, isPiped ? { ...context, isPiped } : context);
    for (const trouble of step.troubles) this.add(trouble, askOpinion(trouble.reason));
    for (const { name, beforeCommand, value, ...span } of step.variables) {
      const isAllowed = beforeCommand ? maySetForCommand(name) : maySetInShell(name);
      if (!isAllowed) this.add(span, askOpinion(settingReason(name)));
      else if (RUNS_IN_ARITHMETIC.test(value))
        this.add(span, askOpinion(`Arithmetic with ${name} would run what is in its value.`));
    }
    for (const redirection of step.redirections) this.redirection(redirection, context);
    const isPiped = context.isPiped || step.redirections.some(feedsInput);
    if (step.words.length) return this.command(step.words, { ...context, isPiped }, step.text);
    if (!step.troubles.length) this.add(step, allowOpinion("It runs no command by itself."));
    return unchangedEnds(context);
  }

  private redirection(redirection: ShellRedirection, { directories }: Context): void {
    const problem = redirectionProblem(redirection, { directories, folders: this.place });
    if (problem)
      this.add(redirection, { ...askOpinion(problem.reason), mustAsk: problem.isProtected });
  }

  /** Decides on a command, and on the commands that it runs. */
  private command(words: readonly ShellWord[], context: Context, text?: string): Ends {
    const at = this.parts.length;
    const { opinion, ends } = this.opinionOn(words, context);
    const [first] = words;
    const start = first?.start ?? 0;
    const end = Math.max(...words.map((word) => word.end));
    const shown = text ?? words.map((word) => word.text).join(" ");
    const decided = commandPart({ start, end, text: shown }, opinion, first?.value);
    this.parts.splice(at, 0, decided);
    return ends;
  }

  private opinionOn(
    words: readonly ShellWord[],
    context: Context,
  ): { opinion: Opinion; ends: Ends } {
    const name = words[0]?.value;
    if (context.depth > MAX_DEPTH)
      return { opinion: askOpinion("Too many commands run one another."), ends: unknownEnds() };
    const strictOpinion = this.strictRule(words);
    if (name === undefined) {
      const unknown = {
        ...askOpinion("The name of the command is not known."),
        mustAsk: !!strictOpinion,
      };
      return { opinion: unknown, ends: unknownEnds() };
    }
    const { opinion, ends } = this.withoutStrictRules(name, words, {
      ...context,
      depth: context.depth + 1,
    });
    return {
      opinion:
        strictOpinion && STRICTNESS[strictOpinion.verdict] >= STRICTNESS[opinion.verdict]
          ? strictOpinion
          : opinion,
      ends,
    };
  }

  /** The strictest deny or ask rule that matches or could match. */
  private strictRule(words: readonly ShellWord[]): Opinion | undefined {
    const { deny, ask } = this.rules;
    const find = (rules: readonly CommandRule[], wanted: "yes" | "maybe") =>
      rules.find((rule) => matchesStrictly(rule, words) === wanted);
    const denied = find(deny, "yes");
    if (denied) return { verdict: "deny", reason: "A deny rule matches.", rule: denied };
    const asked = find(ask, "yes");
    if (asked) return { ...askOpinion("An ask rule matches."), rule: asked, mustAsk: true };
    const unclear = find(deny, "maybe") ?? find(ask, "maybe");
    if (!unclear) return undefined;
    const reason = "A word is unknown, and a rule could match.";
    return { ...askOpinion(reason), rule: unclear, mustAsk: true };
  }

  private withoutStrictRules(
    name: string,
    words: readonly ShellWord[],
    context: Context,
  ): { opinion: Opinion; ends: Ends } {
    if (name === "cd") return this.changeDirectory(words, context);
    const ends = unchangedEnds(context);
    if (NEEDS_NO_RULE.has(name)) return { opinion: opinionWithoutRule(name, words), ends };
    const wrapped = unwrap(words);
    if (wrapped) return this.wrapper(words, wrapped, context);
    const input = shellInput(words);
    if (input) return this.shell(words, input, context);
    const changesDirectory = name === "pushd" || name === "popd";
    return { opinion: this.opinionByRules(words), ends: changesDirectory ? unknownEnds() : ends };
  }

  private changeDirectory(
    words: readonly ShellWord[],
    context: Context,
  ): { opinion: Opinion; ends: Ends } {
    const [target, ...others] = words.slice(words[1]?.value === "--" ? 2 : 1);
    const path = target?.value;
    const isKnown = path !== undefined && path !== "" && !others.length && !path.startsWith("-");
    const paths = isKnown ? possiblePaths(path, context.directories, this.place) : undefined;
    const orBelow = context.directories?.orBelow ?? false;
    // Bash removes `..` from the text of the path, and follows links only if that fails.
    const reachedPaths = paths?.map((each) => posix.resolve(each));
    const areInside = [...(paths ?? []), ...(reachedPaths ?? [])].every(
      (each) =>
        isInFolders(each, this.place) &&
        // In the next iteration of a loop, commands before `cd .git` would run in .git.
        !(orBelow && isProtectedPath(each, this.place)),
    );
    if (!reachedPaths || !areInside)
      return {
        opinion: askOpinion("It leaves the workspace, or goes somewhere unknown."),
        ends: unknownEnds(),
      };
    return {
      opinion: allowOpinion("It stays in the workspace."),
      ends: { success: { paths: reachedPaths, orBelow }, failure: context.directories },
    };
  }

  private wrapper(
    words: readonly ShellWord[],
    wrapped: Wrapped,
    context: Context,
  ): { opinion: Opinion; ends: Ends } {
    const isPiped = words[0]?.value !== "xargs" && context.isPiped;
    let ends = unchangedEnds(context);
    for (const command of wrapped.commands) ends = this.command(command, { ...context, isPiped });
    if (!wrapped.sameShell) ends = unchangedEnds(context);
    return { opinion: this.wrapperOpinion(words, wrapped), ends };
  }

  private wrapperOpinion(words: readonly ShellWord[], wrapped: Wrapped): Opinion {
    if (wrapped.problem !== undefined) return askOpinion(wrapped.problem);
    const forbidden = wrapped.variables.find(({ name }) => !maySetForCommand(name));
    if (forbidden) return askOpinion(settingReason(forbidden.name));
    if (wrapped.needsRule || words[0]?.value?.includes("/")) return this.opinionByRules(words);
    return allowOpinion(
      wrapped.commands.length ? "It runs the command after it." : "It runs nothing.",
    );
  }

  private shell(
    words: readonly ShellWord[],
    input: ShellInput,
    context: Context,
  ): { opinion: Opinion; ends: Ends } {
    const ends = unchangedEnds(context);
    switch (input.kind) {
      case "nothing":
        return { opinion: allowOpinion("It runs nothing."), ends };
      case "unclear":
        return { opinion: askOpinion(input.reason), ends };
      case "input":
        if (context.isPiped)
          return { opinion: askOpinion("The shell runs what it reads from its input."), ends };
        return { opinion: this.opinionByRules(words), ends };
      case "file":
        return { opinion: this.opinionByRules(words), ends };
      case "text":
        return this.shellText(words, input, context);
    }
  }

  private shellText(
    words: readonly ShellWord[],
    input: ShellInput & { kind: "text" },
    context: Context,
  ): { opinion: Opinion; ends: Ends } {
    const { text, word, dialect, problem, sameShell } = input;
    if (text === undefined) {
      const opinion = askOpinion("The text that the shell would run is not known.");
      return { opinion, ends: sameShell ? unknownEnds() : unchangedEnds(context) };
    }
    const span = { start: word.start, end: word.end };
    const ends = this.text(text, { dialect, context: { ...context, place: span }, span });
    const isPath = words[0]?.value?.includes("/");
    const ruleOpinion = isPath
      ? this.opinionByRules(words)
      : allowOpinion("It runs the text after it.");
    const opinion = problem === undefined ? ruleOpinion : askOpinion(problem);
    return { opinion, ends: sameShell ? ends : unchangedEnds(context) };
  }

  /** The opinion on a command that needs an allow rule. */
  private opinionByRules(words: readonly ShellWord[]): Opinion {
    const name = words[0]?.value ?? "";
    if (name === "printf" && maySetByPrintf(words)) return askOpinion("printf -v sets a variable.");
    if (name === "let") return askOpinion("The arithmetic of let is not understood.");
    const minWords = CHANGES_SHELL.has(name) ? 2 : 1;
    const risks = risksOf(words);
    const matching = this.rules.allow.filter(
      (rule) => rule.length >= minWords && matchesAsWritten(rule, words),
    );
    const rule = matching.find(({ length }) => risks.every(({ at }) => at < length));
    if (rule) return { verdict: "allow", reason: "An allow rule matches.", rule };
    const [risk] = risks;
    if (risk) return askOpinion(risk.reason);
    if (minWords > 1)
      return askOpinion(`${name} changes the shell, so it needs a rule of two words.`);
    return { ...askOpinion("No rule matches."), lacksRule: words };
  }

  private add(shown: TextSpan & { text: string }, opinion: Opinion): void {
    this.parts.push(commandPart(shown, opinion));
  }
}

function commandPart(
  { text, start, end }: TextSpan & { text: string },
  opinion: Opinion,
  name: string | null = null,
): CommandPart {
  const { verdict, reason, rule = null, lacksRule = null, mustAsk = false } = opinion;
  return { text, start, end, verdict, reason, rule, lacksRule, name, mustAsk };
}

function settingReason(name: string): string {
  return `It sets ${name}, which can change what other programs do.`;
}

/** Asks about some uses of `test`, because `test -v 'a[$(cmd)]'` runs cmd. */
function opinionWithoutRule(name: string, words: readonly ShellWord[]): Opinion {
  const evaluates = words.some(
    ({ value }, at) =>
      (value === "-v" || value === "-R") &&
      at + 1 < words.length &&
      !PLAIN_NAME.test(words[at + 1]?.value ?? ""),
  );
  return (name === "test" || name === "[") && evaluates
    ? askOpinion("test -v with more than a plain name can run commands.")
    : allowOpinion("It only tests or does nothing.");
}

/** Whether the first argument of `printf` may be `-v`, which sets a variable. */
function maySetByPrintf([, first, ...others]: readonly ShellWord[]): boolean {
  if (!first) return false;
  if (first.prefix.startsWith("-v")) return true;
  const mayBeOption = first.value === undefined && "-v".startsWith(first.prefix);
  return mayBeOption && (first.splits || others.length > 0);
}

function feedsInput({ operator, descriptor }: ShellRedirection): boolean {
  return INPUT_OPERATORS.has(operator) && (descriptor ?? 0) === 0;
}

function unchangedEnds({ directories }: Context): Ends {
  return { success: directories, failure: directories };
}

function unknownEnds(): Ends {
  return { success: undefined, failure: undefined };
}

function union(a: Directories, b: Directories): Directories {
  if (!a || !b) return undefined;
  const paths = [...new Set([...a.paths, ...b.paths])];
  if (paths.length > MAX_DIRECTORIES) return undefined;
  return { paths, orBelow: a.orBelow || b.orBelow };
}

function directoriesAfter({ success, failure }: Ends): Directories {
  return union(success, failure);
}

function unionOfEnds(ends: readonly Ends[]): Ends {
  return ends.reduce((a, b) => ({
    success: union(a.success, b.success),
    failure: union(a.failure, b.failure),
  }));
}

function isSubset(a: Directories, b: NonNullable<Directories>): boolean {
  return a !== undefined && a.paths.every((each) => b.paths.includes(each));
}
