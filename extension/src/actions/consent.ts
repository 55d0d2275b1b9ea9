/** Whether an agent may do an action here: rules, the user's word, or an answer from elsewhere. */
import { randomUUID } from "node:crypto";
import * as path from "node:path";
import { Failure } from "../common/failure";
import type { ApprovalAnswer, ApprovalAnswered, ApprovalRequested, Asked } from "../hub/contract";

/** Milliseconds without an answer after which it is a no. */
const PATIENCE = 120_000;

export type Rule = "allow" | "ask" | "deny";

export interface ConsentSettings {
  isTrusted: () => boolean;
  rules: () => Partial<Record<string, Rule>>;
  /** Agents the user has admitted to this workspace. */
  admitted: { has(agent: string): boolean; add(agent: string): void };
  /** Asks in the window; nothing when it was dismissed. Ends when aborted. */
  ask: (question: ApprovalRequested, signal: AbortSignal) => Promise<ApprovalAnswer | undefined>;
  /** Tells the hub, so that a page may answer too. */
  publish: (question: ApprovalRequested) => void;
  publishAnswer: (answered: ApprovalAnswered) => void;
  patienceMs?: number;
}

export class Consent {
  private readonly waiting = new Map<string, (answered: ApprovalAnswered) => void>();

  constructor(private readonly settings: ConsentSettings) {}

  /** Fails with `workspace.untrusted` or `consent.denied` when it may not be done. */
  async admit(action: Asked, signal: AbortSignal): Promise<void> {
    const { isTrusted, rules, admitted } = this.settings;
    if (!isTrusted())
      throw new Failure(
        "workspace.untrusted",
        "The user has not trusted this workspace; nothing is done here until they do",
      );
    const kind: string = action.action;
    const said = rules();
    const rule = said[kind] ?? said["*"] ?? "ask";
    if (rule === "deny")
      throw new Failure("consent.denied", `The user's settings forbid '${kind}' actions`);
    const settings = touchesSettings(action);
    if (!settings && (rule === "allow" || admitted.has(action.agent))) return;
    const { answer, by } = await this.question(action, settings, signal);
    if (answer === "workspace") admitted.add(action.agent);
    if (answer !== "deny") return;
    const why = by === "time" ? "nobody answered in time" : "the user said no";
    throw new Failure("consent.denied", `'${kind}' was not done: ${why}`);
  }

  /** An answer from elsewhere; the first one wins. */
  answered(answered: ApprovalAnswered): void {
    this.waiting.get(answered.id)?.(answered);
  }

  private async question(
    action: Asked,
    settings: boolean,
    signal: AbortSignal,
  ): Promise<ApprovalAnswered> {
    const patience = this.settings.patienceMs ?? PATIENCE;
    const question: ApprovalRequested = {
      id: randomUUID(),
      cause: action.id,
      agent: action.agent,
      kind: action.action,
      summary: summary(action),
      detail: settings ? "This changes how VS Code itself behaves in this workspace." : "",
      expires: new Date(Date.now() + patience).toISOString(),
    };
    const controller = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const done = new Promise<ApprovalAnswered>((resolve, reject) => {
      const say = (answer: ApprovalAnswer, by: string): void =>
        resolve({ id: question.id, answer, by });
      this.waiting.set(question.id, resolve);
      timer = setTimeout(() => say("deny", "time"), patience);
      signal.addEventListener("abort", () => reject(cancelled()), { once: true });
      void this.settings
        .ask(question, controller.signal)
        .then((answer) => answer && say(answer, "window"), reject);
    });
    this.settings.publish(question);
    try {
      const answered = await done;
      if (answered.by === "window" || answered.by === "time") this.settings.publishAnswer(answered);
      return answered;
    } finally {
      this.waiting.delete(question.id);
      clearTimeout(timer);
      controller.abort();
    }
  }
}

/** One line that says what would be done; paths as `shown` has them. */
export function summary(action: Asked, shown = (path: string): string => path): string {
  const args = action.args as Record<string, unknown>;
  const path = typeof args.path === "string" && args.path ? shown(args.path) : undefined;
  const text = [args.command, args.code, path, args.pattern, args.question].find(
    (value) => typeof value === "string" && value !== "",
  ) as string | undefined;
  const subject = action.action === "edit" ? path : text;
  const line = (subject ?? "").split("\n", 1)[0] ?? "";
  return `${action.action} ${line.length > 200 ? `${line.slice(0, 200)}…` : line}`.trim();
}

/** Writes to these can make VS Code run things: they are asked for whatever was said before. */
function touchesSettings(action: Asked): boolean {
  if (!["write", "edit", "rm", "mkdir", "rmdir"].includes(action.action)) return false;
  const args = action.args as { path?: string; command?: string };
  if (action.action === "edit" && args.command === "view") return false;
  const file = args.path ?? "";
  return file.split("/").includes(".vscode") || path.extname(file) === ".code-workspace";
}

function cancelled(): Failure {
  return new Failure("action.cancelled", "The action was cancelled while the user was asked");
}
