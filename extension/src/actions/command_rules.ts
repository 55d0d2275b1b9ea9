/**
 * Applies the rules to `run` actions: what they say about a command text in the agent's shell. The
 * command lines of tests are judged too, as static commands.
 *
 * Rules say nothing about input to a running program, which is not a command, and nothing about
 * other kinds of actions.
 */
import * as path from "node:path";
import { isPlainRule } from "../consent/rule_edits";
import { rulesFor, type RuleSources } from "../consent/rule_sources";
import { runsInDebugger } from "../consent/debugger_programs";
import { runsHooks, runsTask } from "../consent/programs";
import type { AgentAction } from "../hub/messages";
import {
  decideCommand,
  decisionOf,
  type CommandDecision,
  type CommandPart,
} from "../rules/decision";
import { proposeRules } from "../rules/proposals";
import { realPath } from "../rules/real_path";
import type { FileRule } from "../rules/rule_files";
import type { CommandRule } from "../rules/rule_matching";
import {
  namesToInspect,
  redefinedNames,
  shellObjection,
  UNCLEAR,
  type ShellPremise,
  type ShellState,
} from "../terminal/premise";
import { DEFAULT_SHELL } from "../terminal/shells";

/** What the rules say about one command text. */
export interface CommandReview extends CommandDecision {
  /** Needs approval even if the agent is admitted. */
  readonly mustAsk: boolean;
  /** Allow rules that would settle parts of the question. */
  readonly proposals: readonly CommandRule[];
  /** The rule, with its file, that decided about a part. */
  readonly ruleOf: (part: CommandPart) => FileRule | undefined;
  /** If the text is allowed: what must be true of the shell when the command starts. */
  readonly premise: ShellPremise;
}

export interface CommandRulesSettings {
  sources: RuleSources;
  /** Absolute paths of the folders in which commands may write. */
  folders: () => readonly string[];
  shells: {
    readonly canInspect: boolean;
    cwd(agent: string, name?: string): string;
    has(agent: string, name?: string): boolean;
    inspect(agent: string, name: string, names: readonly string[]): Promise<ShellState | undefined>;
  };
  /** The unique name by which shells know the agent. */
  nameOf: (action: AgentAction) => string;
  /** The command line that an action of another kind than `run` will run, and its directory. */
  lineOf: (action: AgentAction) => { line: string; cwd: string } | undefined;
  /** Whether the action starts tasks of VS Code, before or after a debug session. */
  startsTasks: (action: AgentAction) => boolean;
}

interface RunArgs {
  readonly command?: string;
  readonly is_input?: boolean;
  readonly is_static?: boolean;
  readonly shell?: string;
  readonly cwd?: string | null;
}

const NO_RULES = "No rule allows this agent anything.";
const CANNOT_INSPECT =
  "This window's terminals cannot report what a name means, so rules allow nothing here.";

export class CommandReviewer {
  constructor(private readonly settings: CommandRulesSettings) {}

  /** What the rules say about the text alone. Undefined if the action runs no command text. */
  review(action: AgentAction): CommandReview | undefined {
    const args = this.argsOf(action);
    const text = commandText(args);
    if (!args || text === undefined) return undefined;
    const { shells, nameOf } = this.settings;
    return this.reviewIn(action, args, text, shells.cwd(nameOf(action), shellOf(args)));
  }

  /**
   * For a text that the rules allow: what they say in the agent's shell. Bash is asked for its
   * directory, and whether names are functions. While a command runs in the shell, or before bash
   * has started, the review stays as it is; its premise is checked when the command starts.
   */
  async confirm(action: AgentAction, review: CommandReview): Promise<CommandReview> {
    const { shells, nameOf } = this.settings;
    const args = this.argsOf(action);
    const text = commandText(args);
    if (!args || text === undefined || args.is_static) return review;
    const { names, cwd } = review.premise;
    const state = await shells.inspect(nameOf(action), shellOf(args), names);
    if (!state) return review;
    const objection = shellObjection(state);
    if (objection !== undefined || state === UNCLEAR)
      return { ...review, ...withApproval(review, text, objection ?? "") };
    const now = state.cwd === cwd ? review : this.reviewIn(action, args, text, state.cwd);
    return { ...now, ...withoutRedefined(now, redefinedNames(state)) };
  }

  /** The arguments of a `run` action, or of the static command that another action runs. */
  private argsOf(action: AgentAction): RunArgs | undefined {
    if (action.action === "run") return action.args;
    const planned = this.settings.lineOf(action);
    return planned && { command: planned.line, cwd: planned.cwd, is_static: true };
  }

  private reviewIn(action: AgentAction, args: RunArgs, text: string, cwd: string): CommandReview {
    const { sources, shells, folders } = this.settings;
    const { rules, problems } = sources.current();
    const { lists, origins } = rulesFor(action.agent, rules);
    const start = path.resolve(cwd, args.cwd ?? "");
    const decision = decideCommand(text, lists, {
      workspaces: folders(),
      cwd: start,
      realPath,
      isProtected: (real) => sources.isPersonFile(real),
    });
    const objection = problems.length
      ? `A file of rules cannot be read: ${problems.join("; ")}`
      : shells.canInspect
        ? undefined
        : CANNOT_INSPECT;
    // `cd`, `x=1` and `> file` need no rule, but the user has not allowed this agent anything yet.
    const isUnknown = decision.verdict === "allow" && !lists.allow.length ? NO_RULES : undefined;
    const reason = objection ?? isUnknown;
    return {
      ...(reason === undefined ? decision : withApproval(decision, text, reason)),
      mustAsk: problems.length > 0 || decision.parts.some(mustAskAbout),
      proposals: objection === undefined ? proposals(decision) : [],
      ruleOf: (part) => (part.rule ? origins.get(part.rule) : undefined),
      premise: {
        cwd: args.is_static ? start : cwd,
        names: namesToInspect(decision.parts.map(({ name }) => name)),
      },
    };
  }

  /** Whether the action only reads the output of a program that runs in the agent's shell. */
  readsOutput(action: AgentAction): boolean {
    if (action.action !== "run") return false;
    const { command = "", is_input, is_static } = action.args as RunArgs;
    const { shells, nameOf } = this.settings;
    const isEmpty = is_input ? command === "" : !command.trim();
    return isEmpty && !is_static && shells.has(nameOf(action), shellOf(action.args));
  }

  /**
   * Whether there are rules that cannot see the code that the action runs: in the debugger, as a
   * task or in hooks of git. False for launch configurations of the workspace: they are protected files, so the user
   * wrote them. But the command line of a task may come from another file, such as `package.json`.
   */
  cannotJudge(action: AgentAction): boolean {
    const { name } = action.args as { name?: string };
    if (!runsTask(action) && !runsHooks(action) && !runsInDebugger(action)) return false;
    const { sources, startsTasks } = this.settings;
    const { rules, problems } = sources.current();
    const { lists } = rulesFor(action.agent, rules);
    if (!problems.length && !lists.ask.length && !lists.deny.length) return false;
    return action.action !== "debug_start" || !name || startsTasks(action);
  }

  /** Adds 1 to the use count of each rule that decided. */
  countUsedRules({ parts, ruleOf }: CommandReview): void {
    const used = new Set(parts.flatMap((part) => ruleOf(part) ?? []));
    for (const rule of used) this.settings.sources.countUse(rule);
  }
}

/** The text of a command; undefined if it is no new command. */
function commandText({ command = "", is_input }: RunArgs = {}): string | undefined {
  return is_input || !command.trim() ? undefined : command;
}

/** A static command has its own shell, which starts in the directory of the default shell. */
function shellOf({ shell, is_static }: RunArgs): string {
  return is_static ? DEFAULT_SHELL : shell || DEFAULT_SHELL;
}

function mustAskAbout({ verdict, mustAsk }: CommandPart): boolean {
  return verdict === "ask" && mustAsk;
}

function proposals(decision: CommandDecision): CommandRule[] {
  return proposeRules(decision)
    .map(({ rule }) => rule)
    .filter(isPlainRule);
}

/** The decision with one more part: the whole text needs approval. */
function withApproval({ parts }: CommandDecision, text: string, reason: string): CommandDecision {
  const whole = { text, start: 0, end: text.length, verdict: "ask", reason } as const;
  return decisionOf([
    ...parts,
    { ...whole, rule: null, lacksRule: null, name: null, mustAsk: false },
  ]);
}

/** Commands whose name is a function or an alias need approval, whatever the rules say. */
function withoutRedefined(
  { parts }: CommandDecision,
  redefined: ReadonlyMap<string, string>,
): CommandDecision {
  return decisionOf(
    parts.map((part) => {
      const type = part.name === null ? undefined : redefined.get(part.name);
      if (type === undefined || part.verdict !== "allow") return part;
      const article = type === "alias" ? "an" : "a";
      return { ...part, verdict: "ask", reason: `In this shell it is ${article} ${type}.` };
    }),
  );
}
