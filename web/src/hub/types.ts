// Messages of the hub, with its field names. Event types are generated from the schema.
import type { Action, Observation } from "../../../extension/src/protocol/events";

export type { Action, Observation };

export type SessionState = "starting" | "ready" | "paused" | "stopping" | "stopped" | "failed";

export interface Session {
  id: string;
  name: string;
  owner: string;
  created_by: string;
  state: SessionState;
  stage: string;
  cause: string;
  created: string;
  updated: string;
  last_active: string;
  spawner: string;
  runtime: "sandbox" | "vscode";
  workspace: { kind: string; url?: string; folder?: string; ref?: string };
  limits: { memory: number | null; cpus: number | null; processes: number | null };
  egress: { mode: string; domains: string[] };
  image: string;
  vscode_url: string;
}

export interface SessionApp {
  n: number;
  port: number;
  command: string;
  url: string;
}

export interface Usage {
  cpu_seconds: number;
  memory_bytes: number;
  processes: number;
}

export interface Window {
  connection_id: string;
  name: string;
  folders: { name: string; path: string }[];
  status: "healthy" | "unhealthy" | "gone";
  registered_at: string;
  last_heartbeat: string;
  capabilities: string[];
  vscode_version: string;
  extension_version: string;
  remote: string;
  platform: string;
  app: string;
  hosts: number;
  /** The session that the window belongs to; empty for a person's own window. */
  session_id: string;
}

export interface Approval {
  id: string;
  window_id: string;
  agent: string;
  kind: string;
  summary: string;
  /** All of the request as plain text, or its beginning where `is_whole` is false. */
  detail?: string;
  is_whole?: boolean;
  /** Length of the whole request in characters. */
  detail_length?: number;
  warnings?: string[];
  expires?: string;
}

export type ApprovalAnswer = "once" | "workspace" | "deny";

/** A scripted agent that works in the VS Code of its own session. */
export interface Demo {
  session_id: string;
  url: string;
  phase: "resting" | "starting" | "waiting" | "playing" | "done" | "failed";
  said: { kind: "step" | "seen" | "done"; text: string }[];
  cause: string;
}

export interface Hello {
  version: string;
  name: string;
  scope: "admin" | "agent";
  spawners: string[];
  /** Network modes that a new session may ask for. */
  egress: string[];
  sessions: Session[];
  windows: Window[];
  approvals: Approval[];
  demo: Demo | null;
}

/** One entry of a timeline, numbered by the hub. An entry with `n` 0 is never a duplicate. */
export type TimelineEntry =
  | { n: number; kind: "action"; time: number; event: Action; who?: string }
  | { n: number; kind: "observation"; time: number; event: Observation; seconds: number }
  | {
      n: number;
      kind: "failed";
      time: number;
      cause: string;
      seconds: number;
      message: string;
    }
  | { n: number; kind: "output"; time: number; cause: string; data: string };

export interface TimelineSource {
  kind: "session" | "window";
  id: string;
}

export interface TimelineBatch extends TimelineSource {
  epoch: string;
  entries: TimelineEntry[];
}

export interface HealthCheck {
  name: string;
  state: "ok" | "missing" | "limited";
  found: string;
  advice: string;
}

/** An error in an answer of the hub. */
export interface HubError {
  code: string;
  message: string;
}
