/**
 * Decides whether an agent may perform an action: by the settings, rules for commands, an earlier
 * answer or a question.
 */
import { Failure } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import { abortable } from "../common/abortable";
import type { Choice, Question, QuestionAnswer, Questions } from "../consent/questions";
import {
  partsOf,
  protectedPaths,
  warnings,
  type ConsentRequest,
  type RequestedCommand,
} from "../consent/request";
import { runsProgram, runsTask, secondConsent } from "../consent/programs";
import { shortened } from "../consent/visible_text";
import type {
  ApprovalAnswer,
  ApprovalAnswered,
  ApprovalRequested,
  AgentAction,
} from "../hub/messages";
import type { CommandRule } from "../rules/rule_matching";
import type { ShellPremise } from "../terminal/premise";
import type { CommandReview } from "./command_rules";

/**
 * Maximum bytes of a request, as JSON, in a message to the hub. The window shows the whole request.
 * The hub accepts 256 KiB for a whole question (`MAX_QUESTION_BYTES` in `hub/approvals.py`).
 */
const MAX_PUBLISHED_BYTES = 240 << 10;

/** Maximum parts of a command, and characters of each part, in a message to the hub. */
const MAX_PUBLISHED_PARTS = 50;
const MAX_PART_CHARS = 200;
/** Maximum characters of the rules in a label. Of more rules, only the number. */
const MAX_LABEL_CHARS = 80;

/** What a question shows besides the arguments, by kind of action. It may change meanwhile. */
const CHANGED_PARTS: Readonly<Record<string, string>> = {
  debug_start: "its launch configuration",
  list_tests: "the command that it would run",
  run_tests: "the command that it would run",
  run_cells: "the cells",
  run_task: "the task",
  read_terminal: "the terminal",
  git_commit: "what is staged",
};

export type Rule = "allow" | "ask" | "deny";
/** The setting `bascule.consent`: rules by kind of action. `*` is for all other kinds. */
type Rules = Partial<Record<string, Rule>>;
export type Refusal = "untrusted" | "settings" | "rules" | "time";

/** Agents the user has admitted to this workspace, by hub and token. */
export interface Admissions {
  has(agent: string): boolean;
  add(agent: string): void;
  /** Whether the user has stopped all agents. Then `allow` rules of the settings do not apply. */
  isStopped(): boolean;
}

export interface ConsentSettings {
  isTrusted: () => boolean;
  rules: () => Rules;
  admitted: Admissions;
  /** Hub and token id of the agent. Undefined if unknown: then the agent cannot be admitted. */
  keyOf: (action: AgentAction) => string | undefined;
  /** The consent request with resolved paths. Fails if a path is outside the allowed roots. */
  describe: (action: AgentAction) => Promise<ConsentRequest>;
  commands: {
    /** What the rules say about the command; undefined if the action runs no command. */
    review(action: AgentAction): CommandReview | undefined;
    /** For a command that the rules allow: what they say in the agent's shell. */
    confirm(action: AgentAction, review: CommandReview): Promise<CommandReview>;
    readsOutput(action: AgentAction): boolean;
    /** Whether the user must be asked, because the rules cannot see what will run. */
    cannotJudge(action: AgentAction): boolean;
    /** Whether the action starts tasks of VS Code, before or after a debug session. */
    startsTasks(action: AgentAction): boolean;
    countUsedRules(review: CommandReview): void;
    /** Adds allow rules for the agent. */
    allowAlways(action: AgentAction, rules: readonly CommandRule[]): Promise<void>;
    rulesFile: string;
  };
  questions: Questions;
  /** Sends the question to the hub, so that people can answer on the hub's page too. */
  publish: (question: ApprovalRequested) => void;
  publishAnswer: (answered: ApprovalAnswered) => void;
  /** Called when an agent is refused without a question or because nobody answered. */
  onRefused: (action: AgentAction, why: Refusal) => void;
}

/** The last answer about a command of an agent. */
interface CommandAnswer {
  /** The kind, the arguments, the directory and the shown parts of the question, as JSON. */
  askedAbout: string;
  answer: QuestionAnswer;
  /** Time of the answer, by the clock of `performance.now()`. */
  at: number;
}

export class Consent {
  private readonly published = new Map<string, ApprovalRequested>();
  /** One question per agent at a time: its answer may also cover the next action. */
  private readonly turns = new KeyedLocks();
  private readonly answers = new Map<string, CommandAnswer>();

  constructor(private readonly settings: ConsentSettings) {}

  /**
   * Fails with `workspace.untrusted`, `rule.denied` or `consent.denied` if the action may not be
   * performed. If rules allowed a command, returns what must be true of its shell at the start.
   * `arrived` is the time of `performance.now()` at which the action arrived.
   */
  async admit(
    action: AgentAction,
    signal: AbortSignal,
    arrived = performance.now(),
  ): Promise<ShellPremise | undefined> {
    this.ensureTrusted(action);
    const rule = this.rule(action);
    if (rule === "deny") {
      this.settings.onRefused(action, "settings");
      throw new Failure("consent.denied", `The user's settings forbid '${action.action}' actions`);
    }
    const request = await this.settings.describe(action);
    const decision = await this.decide(action, rule, request);
    if (decision.isSettled) return decision.premise;
    const turn = this.settings.keyOf(action) ?? action.agent;
    const asked = this.turns.hold(turn, async () => {
      if (signal.aborted) return undefined;
      // The answer to an earlier question may have added a rule or admitted the agent.
      const decision = await this.decide(action, rule, request);
      if (decision.isSettled) return decision.premise;
      const shownRequest = decision.review
        ? withCommand(request, decision.review, this.alwaysChoice(action, decision))
        : request;
      await this.ask(action, shownRequest, decision.review, { signal, turn, arrived });
      return undefined;
    });
    return abortable(asked, signal);
  }

  private async decide(
    action: AgentAction,
    rule: Rule,
    request: ConsentRequest,
  ): Promise<ConsentDecision> {
    const { commands, admitted } = this.settings;
    const review = commands.review(action);
    if (review?.verdict === "deny") this.refuseByRule(action, review);
    if (protectedPaths(request).length || commands.cannotJudge(action))
      return { isSettled: false, review };
    if (commands.readsOutput(action) || (!review?.mustAsk && this.isAdmitted(action, rule)))
      return { isSettled: true, review };
    if (review?.verdict !== "allow" || admitted.isStopped()) return { isSettled: false, review };
    const confirmed = await commands.confirm(action, review);
    if (confirmed.verdict !== "allow") return { isSettled: false, review: confirmed };
    commands.countUsedRules(confirmed);
    return { isSettled: true, review: confirmed, premise: confirmed.premise };
  }

  private refuseByRule(action: AgentAction, review: CommandReview): never {
    const { commands, onRefused } = this.settings;
    commands.countUsedRules(review);
    onRefused(action, "rules");
    const part = review.parts.find(({ verdict }) => verdict === "deny");
    const rule = part && review.ruleOf(part);
    const which = rule
      ? `the rule '${rule.words.join(" ")}' (${rule.file}:${rule.line})`
      : "a rule";
    const why = rule?.why ? `: ${rule.why}` : "";
    throw new Failure("rule.denied", `'run' was not done: ${which} denies it${why}`);
  }

  /** The rules that the answer "always" would add, and the file that gets them. */
  private alwaysChoice(action: AgentAction, { review }: ConsentDecision): AlwaysChoice {
    const { keyOf, commands } = this.settings;
    const proposals = keyOf(action) === undefined ? [] : (review?.proposals ?? []);
    return { proposals: proposals.map((words) => words.join(" ")), rulesFile: commands.rulesFile };
  }

  /** Handles an answer from the hub's page. Only the first answer has an effect. */
  answered({ id, answer, by }: ApprovalAnswered): void {
    this.settings.questions.answer(id, answer, by);
  }

  /** Sends open questions again: a restarted hub does not know them. */
  publishAgain(): void {
    for (const question of this.published.values()) this.settings.publish(question);
  }

  private ensureTrusted(action: AgentAction): void {
    if (this.settings.isTrusted()) return;
    this.settings.onRefused(action, "untrusted");
    throw new Failure(
      "workspace.untrusted",
      "The user has not trusted this workspace; nothing is done here until they do",
    );
  }

  private rule(action: AgentAction): Rule {
    const rules = this.settings.rules();
    if (runsTask(action)) return taskRule(rules);
    const rule = ruleOf(action, rules);
    if (rule === "deny" || !this.settings.commands.startsTasks(action)) return rule;
    return strictest(rule, taskRule(rules));
  }

  private isAdmitted(action: AgentAction, rule: Rule): boolean {
    const { admitted, keyOf } = this.settings;
    const key = keyOf(action);
    if (key !== undefined && admitted.has(key) && !removesTree(action)) return true;
    return rule === "allow" && !admitted.isStopped();
  }

  private async ask(
    action: AgentAction,
    request: ConsentRequest,
    review: CommandReview | undefined,
    { signal, turn, arrived }: { signal: AbortSignal; turn: string; arrived: number },
  ): Promise<void> {
    const { admitted, keyOf, describe, onRefused } = this.settings;
    // The parts have the planned command line of tests, which their arguments do not determine.
    const askedAbout = JSON.stringify([action.action, action.args, request.cwd, request.parts]);
    const last = review && this.answers.get(turn);
    // The same command was sent again while the user was reading the question: the answer is used
    // for both.
    const isSame = last?.askedAbout === askedAbout && arrived < last.at;
    const { answer, by } = isSame
      ? last.answer
      : await this.question(action, request, review, signal);
    if (review && !isSame)
      this.answers.set(turn, { askedAbout, answer: { answer, by }, at: performance.now() });
    const kind = action.action;
    if (answer === "deny") {
      if (by === "time" && !isSame) onRefused(action, "time");
      const why = by === "time" ? "nobody answered in time" : "the user refused";
      throw new Failure("consent.denied", `'${kind}' was not done: ${why}`);
    }
    this.ensureTrusted(action);
    // A symbolic link may have replaced the file while the user was reading.
    const now = await describe(action);
    if (JSON.stringify(now.paths) !== JSON.stringify(request.paths))
      throw new Failure(
        "consent.denied",
        `'${kind}' was not done: its path leads elsewhere than when the user was asked`,
      );
    if (JSON.stringify(now.parts) !== JSON.stringify(request.parts))
      throw new Failure(
        "consent.denied",
        `'${kind}' was not done: ${CHANGED_PARTS[kind] ?? "it"} changed while the user was asked`,
      );
    const key = keyOf(action);
    if (answer === "workspace" && key !== undefined) admitted.add(key);
    if (answer === "always" && review && !isSame)
      await this.settings.commands.allowAlways(action, review.proposals);
  }

  private async question(
    action: AgentAction,
    request: ConsentRequest,
    review: CommandReview | undefined,
    signal: AbortSignal,
  ): Promise<QuestionAnswer> {
    const { questions, publish, publishAnswer } = this.settings;
    let id = "";
    const began = (question: Question): void => {
      id = question.id;
      const published = publication(action, question, review);
      this.published.set(id, published);
      publish(published);
    };
    const publishResult = (answer: ApprovalAnswer, by: string): void =>
      publishAnswer({ id, answer, by });
    try {
      const answered = await questions.ask(request, choices(request), signal, began);
      if (["window", "time"].includes(answered.by))
        publishResult(answered.answer as ApprovalAnswer, answered.by);
      return answered;
    } catch (error) {
      publishResult("deny", "withdrawn"); // otherwise the question would stay on the hub's page
      throw error;
    } finally {
      this.published.delete(id);
    }
  }
}

/** One line that describes an action. `formatPath` formats its path. */
export function summary(action: AgentAction, formatPath = (path: string): string => path): string {
  const args = action.args as Record<string, unknown>;
  const path = typeof args.path === "string" && args.path ? formatPath(args.path) : undefined;
  const about = action.action === "edit" ? path : (path ?? partsOf(args)[0]?.text);
  return `${action.action} ${shortened(about ?? "")}`.trim();
}

function ruleOf(action: AgentAction, rules: Rules): Rule {
  const otherwise = rules["*"] ?? "ask";
  const own = rules[action.action];
  const second = secondConsent(action);
  if (second !== undefined) return strictest(rules[second] ?? otherwise, own ?? otherwise);
  // Code in the debugger and tests need at least the same permission as commands.
  return runsProgram(action)
    ? strictest(rules["run"] ?? otherwise, own ?? "allow")
    : (own ?? otherwise);
}

/** The rule for tasks, also for those that another kind of action starts. */
function taskRule(rules: Rules): Rule {
  const otherwise = rules["*"] ?? "ask";
  return rules["run_task"] ?? strictest(rules["run"] ?? otherwise, otherwise);
}

function strictest(one: Rule, other: Rule): Rule {
  return STRICTNESS.find((rule) => rule === one || rule === other) ?? "ask";
}

const STRICTNESS: readonly Rule[] = ["deny", "ask", "allow"];

interface ConsentDecision {
  isSettled: boolean;
  review: CommandReview | undefined;
  premise?: ShellPremise;
}

type AlwaysChoice = Pick<RequestedCommand, "proposals" | "rulesFile">;

function withCommand(
  request: ConsentRequest,
  { parts }: CommandReview,
  always: AlwaysChoice,
): ConsentRequest {
  const asking = parts.filter(({ verdict }) => verdict === "ask");
  return { ...request, command: { asking, ...always } };
}

function choices({ command }: ConsentRequest): Choice[] {
  const proposals = command?.proposals ?? [];
  const listed = proposals.join(", ");
  const rules = listed.length > MAX_LABEL_CHARS ? `the ${proposals.length} rules below` : listed;
  return [
    ["Allow Once", "once"],
    ...(proposals.length ? [[`Always for: ${rules}`, "always"] as const] : []),
    ["Allow in This Workspace", "workspace"],
    ["Deny", "deny"],
  ];
}

function publication(
  action: AgentAction,
  question: Question,
  review: CommandReview | undefined,
): ApprovalRequested {
  const { id, request, summary, text, expires } = question;
  const command = review && {
    parts: review.parts.slice(0, MAX_PUBLISHED_PARTS).map(({ text: part, verdict, reason }) => ({
      text: shortened(part, MAX_PART_CHARS),
      verdict,
      reason: shortened(reason, MAX_PART_CHARS),
    })),
    proposals: (request.command?.proposals ?? []).map((each) => ({
      rule: each.split(" "),
      text: each,
    })),
  };
  const detail = firstLines(
    text,
    MAX_PUBLISHED_BYTES - Buffer.byteLength(JSON.stringify(command ?? "")),
  );
  return {
    id,
    cause: action.id,
    agent: action.agent,
    kind: action.action,
    summary,
    detail,
    is_whole: detail === text,
    detail_length: text.length,
    warnings: warnings(request),
    choices: question.choices.map(([, answer]) => answer as ApprovalAnswer),
    ...command,
    expires: expires.toISOString(),
  };
}

/** The first whole lines of `text` that together have at most `maxBytes` bytes as JSON. */
function firstLines(text: string, maxBytes: number): string {
  if (jsonBytes(text) <= maxBytes) return text;
  let kept = "";
  let size = 2; // the quotes
  for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    size += jsonBytes(line) - 2;
    if (size > maxBytes) break;
    kept += line;
  }
  return kept;
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text));
}

/** Even an admitted agent needs a new answer, or an `allow` rule, to remove a directory tree. */
function removesTree(action: AgentAction): boolean {
  return action.action === "rmdir" && (action.args as { recursive?: boolean }).recursive === true;
}
