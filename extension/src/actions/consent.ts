/**
 * Decides whether an agent may perform an action: by the settings, an earlier answer or a question.
 */
import { Failure } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import { abortable } from "../common/abortable";
import type { Choice, Question, Questions } from "../consent/questions";
import { partsOf, protectedPaths, warnings, type ConsentRequest } from "../consent/request";
import { shortened } from "../consent/visible_text";
import type {
  ApprovalAnswer,
  ApprovalAnswered,
  ApprovalRequested,
  AgentAction,
} from "../hub/messages";

/**
 * Bytes of a request, as JSON, that are sent to the hub; the window shows all of it. The hub admits
 * 256 KiB for a whole question (`MAX_QUESTION` in `hub/approvals.py`).
 */
const PUBLISHED_BYTES = 240 << 10;

const CHOICES: readonly Choice[] = [
  ["Allow Once", "once"],
  ["Allow in This Workspace", "workspace"],
  ["Deny", "deny"],
];

export type Rule = "allow" | "ask" | "deny";
export type Refusal = "untrusted" | "settings" | "time";

/** Agents the user has admitted to this workspace, by hub and token. */
export interface Admissions {
  has(agent: string): boolean;
  add(agent: string): void;
  /** The user has stopped everything: `allow` rules are suspended until the user lifts that. */
  isStopped(): boolean;
}

export interface ConsentSettings {
  isTrusted: () => boolean;
  rules: () => Partial<Record<string, Rule>>;
  admitted: Admissions;
  /** Hub and token id of the agent; undefined if unknown, and then every action is asked about. */
  keyOf: (action: AgentAction) => string | undefined;
  /** The consent request with resolved paths. Fails if a path is outside the allowed roots. */
  describe: (action: AgentAction) => Promise<ConsentRequest>;
  questions: Questions;
  /** Sends the question to the hub, so that it can be answered on its page too. */
  publish: (question: ApprovalRequested) => void;
  publishAnswer: (answered: ApprovalAnswered) => void;
  /** An agent was refused without a question or because nobody answered. */
  onRefused: (action: AgentAction, why: Refusal) => void;
}

export class Consent {
  private readonly published = new Map<string, ApprovalRequested>();
  /** One question per agent at a time: its answer may also cover the next action. */
  private readonly turns = new KeyedLocks();

  constructor(private readonly settings: ConsentSettings) {}

  /** Fails with `workspace.untrusted` or `consent.denied` if the action may not be performed. */
  async admit(action: AgentAction, signal: AbortSignal): Promise<void> {
    this.ensureTrusted(action);
    const rule = this.rule(action);
    if (rule === "deny") {
      this.settings.onRefused(action, "settings");
      throw new Failure("consent.denied", `The user's settings forbid '${action.action}' actions`);
    }
    const request = await this.settings.describe(action);
    const isSettled = (): boolean =>
      protectedPaths(request).length === 0 && this.isAdmitted(action, rule);
    if (isSettled()) return;
    const turn = this.settings.keyOf(action) ?? action.agent;
    const asked = this.turns.hold(turn, async () => {
      if (signal.aborted || isSettled()) return;
      await this.ask(action, request, signal);
    });
    await abortable(asked, signal);
  }

  /** An answer from the hub's page. The first answer counts. */
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
    const said = this.settings.rules();
    return said[action.action] ?? said["*"] ?? "ask";
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
    signal: AbortSignal,
  ): Promise<void> {
    const { admitted, keyOf, describe, onRefused } = this.settings;
    const { answer, by } = await this.question(action, request, signal);
    const kind = action.action;
    if (answer === "deny") {
      if (by === "time") onRefused(action, "time");
      const why = by === "time" ? "nobody answered in time" : "the user said no";
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
    const key = keyOf(action);
    if (answer === "workspace" && key !== undefined) admitted.add(key);
  }

  private async question(
    action: AgentAction,
    request: ConsentRequest,
    signal: AbortSignal,
  ): Promise<{ answer: string; by: string }> {
    const { questions, publish, publishAnswer } = this.settings;
    let id = "";
    const began = (question: Question): void => {
      id = question.id;
      const published = publication(action, question);
      this.published.set(id, published);
      publish(published);
    };
    const tell = (answer: ApprovalAnswer, by: string): void => publishAnswer({ id, answer, by });
    try {
      const answered = await questions.ask(request, CHOICES, signal, began);
      if (["window", "time"].includes(answered.by))
        tell(answered.answer as ApprovalAnswer, answered.by);
      return answered;
    } catch (error) {
      tell("deny", "withdrawn"); // otherwise the question would stay on the hub's page
      throw error;
    } finally {
      this.published.delete(id);
    }
  }
}

/** One line that describes an action; `shown` formats paths. */
export function summary(action: AgentAction, shown = (path: string): string => path): string {
  const args = action.args as Record<string, unknown>;
  const path = typeof args.path === "string" && args.path ? shown(args.path) : undefined;
  const about = action.action === "edit" ? path : (path ?? partsOf(args)[0]?.text);
  return `${action.action} ${shortened(about ?? "")}`.trim();
}

function publication(action: AgentAction, question: Question): ApprovalRequested {
  const { id, request, summary, text, expires } = question;
  const detail = cut(text, PUBLISHED_BYTES);
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
    expires: expires.toISOString(),
  };
}

/** The longest beginning of `text` that ends with a line and has at most `most` bytes as JSON. */
function cut(text: string, most: number): string {
  if (bytes(text) <= most) return text;
  let kept = "";
  let size = 2; // the quotes
  for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    size += bytes(line) - 2;
    if (size > most) break;
    kept += line;
  }
  return kept;
}

function bytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text));
}

/** Removing a directory tree is asked about even for admitted agents, unless a rule allows it. */
function removesTree(action: AgentAction): boolean {
  return action.action === "rmdir" && (action.args as { recursive?: boolean }).recursive === true;
}
