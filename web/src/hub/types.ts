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
  workspace: { kind: string; url?: string; folder?: string; ref?: string; fork_of?: string };
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
  /** The window or the session that asks. */
  window_id?: string;
  session_id?: string;
  agent: string;
  kind: string;
  summary: string;
  /** The whole request as plain text; only its beginning if `is_whole` is false. */
  detail?: string;
  is_whole?: boolean;
  /** Length of the whole request in characters. */
  detail_length?: number;
  warnings?: string[];
  expires?: string;
  /** The parts of a command, in order, and what rules say about each. */
  parts?: CommandPart[];
  /** Rules that the answer `always` adds. */
  proposals?: { rule: string[]; text: string }[];
  /** The possible answers. Earlier versions of the extension do not send them. */
  choices?: ApprovalAnswer[];
}

/** A rule of the hub for commands in sessions. */
export interface HubRule {
  verdict: "allow" | "ask" | "deny";
  rule: string;
  /** The agent that the rule is for. Empty: all agents. */
  agent: string;
  /** The reason for the rule, or who allowed it and when. */
  why: string;
  origin: string;
}

/** A rule in one session, and what it decided there since the session's sandbox started. */
export interface RuleInUse extends HubRule {
  made_by: "hub" | "workspace";
  /** Number of commands. Null: the session does not run. */
  count: number | null;
  /** Unix time of the last command. */
  last_time: number | null;
  last_command: string;
}

/** A file with changes of agents that nobody has reviewed yet. */
export interface ReviewFile {
  id: string;
  /** Changes whenever the file's text changes. An answer names the version that was shown. */
  version: string;
  name: string;
  agents: string[];
  change: "created" | "changed" | "removed";
  hunks: number;
  added: number;
  removed: number;
}

/** The pending changes in a window. `more` files are not listed. */
export interface ReviewList {
  files: ReviewFile[];
  more: number;
}

/** Changed lines of a file. `more` hunks are not listed. */
export interface ReviewHunks {
  hunks: { line: number; removed: string[]; added: string[]; is_whole: boolean }[];
  more: number;
}

export interface ReviewTarget {
  file: string;
  version: string;
  /** Number of the hunk in this version. Missing: the whole file. */
  hunk?: number;
}

export interface CommandPart {
  text: string;
  verdict: "allow" | "ask" | "deny";
  reason: string;
}

export type ApprovalAnswer = "once" | "workspace" | "always" | "deny";

/** A user of the hub. */
export interface User {
  name: string;
  role: "admin" | "member" | "viewer";
  display_name: string;
  issuer: string | null;
  subject: string | null;
  disabled: boolean;
  max_sessions: number | null;
  max_running: number | null;
  last_sign_in: string | null;
}

/** Access to a session that its owner gave to another user. */
export interface Share {
  user: string;
  access: "view" | "act";
}

/** An entry of the audit log: who did what. */
export interface AuditEntry {
  id: number;
  time: string;
  who: string;
  user: string;
  verb: string;
  session_id: string;
  detail: Record<string, unknown>;
}

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
  owner: string;
  scope: "admin" | "member" | "viewer" | "agent";
  spawners: string[];
  /** Network modes that a new session may ask for. */
  egress: string[];
  sessions: Session[];
  windows: Window[];
  approvals: Approval[];
  demo: Demo | null;
}

/** One entry of a timeline, numbered by the hub. `n` is 0 for entries that are never repeated. */
export type TimelineEntry =
  | { n: number; kind: "action"; time: number; event: Action; who?: string }
  | {
      n: number;
      kind: "observation";
      time: number;
      event: Observation;
      seconds: number;
      /** Number of the checkpoint with what the action changed, if it changed files. */
      checkpoint?: number;
    }
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

/** What a restore did, or with `dry_run` would do. */
export interface Restored {
  /** The restore's own checkpoint. */
  checkpoint: number | null;
  restored: string[];
  removed: string[];
  conflicts: { path: string; reason: string }[];
  dry_run: boolean;
}

/** A path that differs from the snapshot of a fork. */
export interface ForkChange {
  path: string;
  change: "added" | "changed" | "removed";
}

/** A fork, and what it has not merged. Lists are shortened; `count` counts all paths. */
export interface Fork {
  id: string;
  name: string;
  state: SessionState;
  count: number;
  changes: ForkChange[];
}

/** A session with its forks, and the paths that more than one of them changed, in order. */
export interface Forks {
  id: string;
  name: string;
  count: number;
  changes: ForkChange[];
  forks: Fork[];
  overlap_count: number;
  overlaps: { path: string; sessions: string[] }[];
}

/** The result of a merge, with the outcome for each path. */
export interface Merged {
  into: string;
  /** The checkpoint that undoes the merge. */
  checkpoint: number | null;
  conflicts: number;
  results: { path: string; outcome: string; reason: string }[];
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
