/** What travels between a window and the hub besides events. docs/extension-protocol.md has the meaning. */
import type { Action, SentObservation } from "../protocol";

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

/** What a window says of itself; the rest of a registration says who it is. */
export interface WindowDescription {
  name: string;
  folders: Folder[];
  vscode_version: string;
  extension_version: string;
  platform: string;
  app: string;
  remote: "local" | "ssh" | "wsl" | "container" | "web";
  capabilities: string[];
}

export interface WindowIdentity {
  window_id: string;
  window_key: string;
  host_id: string;
}

/**
 * An action with the name of the asker's token and an id that is the token's own, which the hub puts
 * there. A name can be given to another token later; the id cannot.
 */
export type AgentAction = Action & {
  agent: string;
  agent_id?: string;
  progress?: boolean;
  /** Seconds since its sender first sent it; missing the first time. */
  age?: number;
};

export interface ProgressMessage {
  cause: string;
  shell: string;
  offset: number;
  data: string;
}

export type ApprovalAnswer = "once" | "workspace" | "deny";

export interface ApprovalRequested {
  id: string;
  cause: string;
  agent: string;
  kind: string;
  /** One line. */
  summary: string;
  /** The request as plain text, cut at its end when the hub would not admit all of it. */
  detail: string;
  /** False: the detail was cut. Then the request can be allowed only in the window. */
  is_whole: boolean;
  /** Characters of the detail before it was cut. */
  detail_length: number;
  warnings: string[];
  expires: string;
}

export interface ApprovalAnswered {
  id: string;
  answer: ApprovalAnswer;
  by: string;
}

export interface Received {
  received: true;
}

export interface FromHub {
  hello: (hello: Hello) => void;
  refused: (refused: RefusedMessage) => void;
  health: (nothing: unknown, ack: (health: { ok: boolean; milliseconds: number }) => void) => void;
  oh_event: (action: unknown) => void;
  oh_cancel: (what: { id: string }, ack?: (known: { known: boolean }) => void) => void;
  /** Whoever asked for these actions has their observations. */
  oh_received: (what: { ids: string[] }) => void;
  "approval.answered": (answered: ApprovalAnswered) => void;
  /** Nobody waits for these actions any more. */
  "askers.left": (left: { ids: string[] }) => void;
  /** Another host speaks for this window, and the editor of this one is dead. */
  superseded: (nothing: unknown) => void;
}

export interface ToHub {
  oh_event: (observation: SentObservation, ack: (received: Received) => void) => void;
  oh_progress: (progress: ProgressMessage) => void;
  "approval.requested": (requested: ApprovalRequested) => void;
  "approval.answered": (answered: ApprovalAnswered) => void;
  "window.changed": (changed: Partial<WindowDescription>) => void;
}

/** An action that is whole enough to be answered, or what is wrong with it. The hub checked its fields. */
export function parseAction(message: unknown): AgentAction | string {
  const event = message as Record<string, unknown> | null;
  if (typeof event !== "object" || event === null) return "an action is an object";
  if (typeof event.id !== "string" || !event.id) return "an action has an id";
  if (typeof event.action !== "string") return `action ${event.id} does not say its kind`;
  const args = event.args ?? {};
  if (typeof args !== "object" || Array.isArray(args))
    return `the args of ${event.id} are no object`;
  const agent = typeof event.agent === "string" && event.agent ? event.agent : "an unnamed agent";
  const { agent_id: id, ...rest } = event;
  return {
    ...rest,
    args,
    agent,
    ...(typeof id === "string" && id ? { agent_id: id } : {}),
  } as AgentAction;
}
