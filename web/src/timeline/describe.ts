// Short texts about a timeline row: kind, subject, outcome, duration; and filtering.
import type { Action } from "../hub/types";
import type { TimelineRow } from "./timeline_log";

export type ActionGroup = "commands" | "files" | "browser" | "other";

const GROUPS: Record<string, ActionGroup> = {
  run: "commands",
  run_ipython: "commands",
  interrupt: "commands",
  browse: "browser",
  browse_interactive: "browser",
  ...Object.fromEntries(
    ["read", "write", "edit", "mkdir", "rmdir", "rm", "list", "glob", "grep", "open_file"].map(
      (kind) => [kind, "files" as const],
    ),
  ),
};

/** Arguments that describe an action, best first. */
const DESCRIPTIVE_ARGS = [
  "command",
  "code",
  "path",
  "url",
  "browser_actions",
  "pattern",
  "content",
  "thought",
  "name",
];

/** The workspace directory of a session. */
const WORKSPACE = "/workspace/";

export function kindOf(row: TimelineRow): string {
  return row.action?.action ?? row.observation?.observation ?? "action";
}

export function groupOf(row: TimelineRow): ActionGroup {
  return GROUPS[kindOf(row)] ?? "other";
}

/** What the action is about, in one line. */
export function subjectOf(row: TimelineRow): string {
  const action = row.action;
  if (!action) return row.observation?.message ?? "";
  const args = argsOf(action);
  if (action.action === "edit")
    return `${withoutWorkspace(action.args.path)} ${action.args.command ?? ""}`.trim();
  for (const name of DESCRIPTIVE_ARGS) {
    const value = args[name];
    if (typeof value === "string" && value.trim() !== "")
      return asOneLine(name === "path" ? withoutWorkspace(value) : value);
  }
  return action.message ?? "";
}

/** A path without the workspace prefix: space is short and the end of a path matters most. */
function withoutWorkspace(path: string): string {
  return path.startsWith(WORKSPACE) && path !== WORKSPACE ? path.slice(WORKSPACE.length) : path;
}

/** The outcome, if it is not plain success. */
export function outcomeOf(row: TimelineRow): string {
  if (row.lostReason && !row.observation) return row.lostReason;
  const seen = row.observation;
  if (seen?.observation === "run") {
    const status = seen.extras.metadata?.exit_code;
    if (status === -1) return "still running";
    return status === 0 || status === undefined ? "" : `exit ${status}`;
  }
  if (seen?.observation === "error") return asOneLine(seen.content);
  return "";
}

export function argsOf(action: Action): Record<string, unknown> {
  return "args" in action ? action.args : {};
}

export interface Filter {
  text: string;
  group: ActionGroup | "all" | "failed";
}

export function matchesFilter(row: TimelineRow, filter: Filter): boolean {
  if (filter.group === "failed" && row.state !== "failed") return false;
  if (filter.group !== "all" && filter.group !== "failed" && groupOf(row) !== filter.group)
    return false;
  if (filter.text === "") return true;
  const wanted = filter.text.toLowerCase();
  return [kindOf(row), subjectOf(row), row.who, row.output, row.observation?.content ?? ""].some(
    (text) => text.toLowerCase().includes(wanted),
  );
}

export function durationText(seconds: number | null): string {
  if (seconds === null) return "";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  return `${minutes} min ${Math.round(seconds - minutes * 60)} s`;
}

function asOneLine(text: string): string {
  const line = text.trim().replace(/\s*\n\s*/g, " ⏎ ");
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}
