/** Messages between a window and the hub, except events. See docs/extension-protocol.md. */
import type { Action, SentObservation } from "../protocol";
import type { MergeBegan } from "../review/merges";

export const HUB_PROTOCOL = 1;
export const HUB_NAMESPACE = "/window";

export interface Hello {
  nonce: string;
  protocol: number;
  version: string;
  limits: { message_bytes: number };
  heartbeat: number;
}

export interface RefusedMessage {
  code: string;
  message: string;
}

export interface Folder {
  name: string;
  path: string;
}

/** Describes a window. `WindowIdentity` is the other half of a registration. */
export interface WindowDescription {
  name: string;
  folders: Folder[];
  vscode_version: string;
  extension_version: string;
  platform: string;
  app: string;
  remote: "local" | "ssh" | "wsl" | "container" | "web";
  capabilities: string[];
  /** Whether this window handles `merge.began` and `merge.ended`. */
  reviews_merges: boolean;
}

export interface WindowIdentity {
  window_id: string;
  window_key: string;
  host_id: string;
}

/**
 * An action with the name and id of the sender's token, added by the hub. Another token may get the
 * same name later, but never the same id.
 */
export type AgentAction = Action & {
  agent: string;
  agent_id?: string;
  progress?: boolean;
  /** Seconds since the action was first sent; missing the first time. */
  age?: number;
};

export interface ProgressMessage {
  cause: string;
  shell: string;
  offset: number;
  data: string;
}

/** `always`: the proposals become allow rules of the user, for this agent. */
export type ApprovalAnswer = "once" | "always" | "workspace" | "deny";

/** One part of a command text, and what the rules say about it. */
export interface ApprovalPart {
  text: string;
  verdict: "allow" | "ask" | "deny";
  reason: string;
}

export interface ApprovalRequested {
  id: string;
  cause: string;
  agent: string;
  kind: string;
  /** One line. */
  summary: string;
  /** The request as plain text, cut at its end if the hub would not accept its full length. */
  detail: string;
  /** False if the detail was cut. Then the request can be allowed only in the window. */
  is_whole: boolean;
  /** Characters of the detail before it was cut. */
  detail_length: number;
  warnings: string[];
  /** The answers that this question admits. */
  choices: ApprovalAnswer[];
  /** Only for `run` actions with a command text, in the order in which bash would run them. */
  parts?: ApprovalPart[];
  /** The rules that `always` would add; only with `parts`. */
  proposals?: { rule: string[]; text: string }[];
  expires: string;
}

export interface ApprovalAnswered {
  id: string;
  answer: ApprovalAnswer;
  by: string;
}

/** One file with changes of agents that nobody has reviewed yet. */
export interface ReviewFile {
  id: string;
  /** Changes whenever the file's text changes. An answer names the version that was shown. */
  version: string;
  /** Path in the workspace, with hidden characters spelled out. */
  name: string;
  agents: string[];
  change: "created" | "changed" | "removed";
  hunks: number;
  /** Number of added lines. */
  added: number;
  removed: number;
}

export interface ReviewList {
  files: ReviewFile[];
  /** Number of files that are not listed. */
  more: number;
}

export interface ReviewHunk {
  /** The first line in the file, from 1. */
  line: number;
  removed: string[];
  added: string[];
  /** False if lines, or ends of lines, are left out. */
  is_whole: boolean;
}

export interface ReviewHunks {
  hunks: ReviewHunk[];
  /** Number of hunks that are not listed. */
  more: number;
}

export interface ReviewTarget {
  file: string;
  version: string;
  /** Number of the hunk in this version, from 0. Missing: the whole file. */
  hunk?: number;
}

export interface ReviewAnswer {
  answer: "keep" | "undo";
  files: ReviewTarget[];
  by: string;
}

export type ReviewReply<T> = { value: T } | { error: { code: string; message: string } };

export interface Received {
  received: true;
}

export interface FromHub {
  hello: (hello: Hello) => void;
  refused: (refused: RefusedMessage) => void;
  health: (nothing: unknown, ack: (health: { ok: boolean; milliseconds: number }) => void) => void;
  oh_event: (action: unknown) => void;
  oh_cancel: (what: { id: string }, ack?: (known: { known: boolean }) => void) => void;
  /** The senders of these actions have received the observations. */
  oh_received: (what: { ids: string[] }) => void;
  "approval.answered": (answered: ApprovalAnswered) => void;
  "review.show": (file: ReviewTarget, ack: (reply: ReviewReply<ReviewHunks>) => void) => void;
  "review.answer": (
    answer: ReviewAnswer,
    ack: (reply: ReviewReply<{ done: number }>) => void,
  ) => void;
  /** The senders of these actions disconnected. */
  "askers.left": (left: { ids: string[] }) => void;
  /** A fork is about to be merged into the workspace; acknowledged when the window is prepared. */
  "merge.began": (merge: MergeBegan, ack?: (nothing: object) => void) => void;
  "merge.ended": (merge: { id: string }) => void;
  /** Another host took over this window, because this host's editor does not answer. */
  superseded: (nothing: unknown) => void;
}

export interface ToHub {
  oh_event: (observation: SentObservation, ack: (received: Received) => void) => void;
  oh_progress: (progress: ProgressMessage) => void;
  "approval.requested": (requested: ApprovalRequested) => void;
  "approval.answered": (answered: ApprovalAnswered) => void;
  "review.changed": (list: ReviewList) => void;
  "window.changed": (changed: Partial<WindowDescription>) => void;
}

/**
 * Checks only the fields that an answer needs, because the hub has validated the action. Returns
 * the error as a string.
 */
export function parseAction(message: unknown): AgentAction | string {
  const event = message as Record<string, unknown> | null;
  if (typeof event !== "object" || event === null) return "an action must be an object";
  if (typeof event.id !== "string" || !event.id) return "an action needs an id";
  if (typeof event.action !== "string") return `action ${event.id} has no kind`;
  const args = event.args ?? {};
  if (typeof args !== "object" || Array.isArray(args))
    return `the args of ${event.id} are not an object`;
  const agent = typeof event.agent === "string" && event.agent ? event.agent : "an unnamed agent";
  const { agent_id: id, ...rest } = event;
  return {
    ...rest,
    args,
    agent,
    ...(typeof id === "string" && id ? { agent_id: id } : {}),
  } as AgentAction;
}
