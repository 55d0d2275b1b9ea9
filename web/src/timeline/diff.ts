// Line diff of an edit, for display.
import type { TimelineRow } from "./timeline_log";
import { argsOf } from "./describe";

export interface DiffLine {
  sign: "+" | "-" | " ";
  text: string;
}

/** The diff of a write or edit action; null for other actions. */
export function diffOf(row: TimelineRow): DiffLine[] | null {
  const action = row.action;
  if (!action) return null;
  const args = argsOf(action);
  const text = (name: string): string => (typeof args[name] === "string" ? args[name] : "");
  if (action.action === "write") return diffLines("", text("content"));
  if (action.action !== "edit") return null;
  switch (args["command"]) {
    case "create":
      return diffLines("", text("file_text"));
    case "str_replace":
      return diffLines(text("old_str"), text("new_str"));
    case "insert":
      return diffLines("", text("new_str"));
    default:
      return null;
  }
}

/** Common lines at the start and end are context; every line between them counts as changed. */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = splitLines(before);
  const now = splitLines(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < now.length - head &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  )
    tail += 1;
  const signed = (sign: DiffLine["sign"], some: string[]): DiffLine[] =>
    some.map((text) => ({ sign, text }));
  return [
    ...signed(" ", old.slice(0, head)),
    ...signed("-", old.slice(head, old.length - tail)),
    ...signed("+", now.slice(head, now.length - tail)),
    ...signed(" ", old.slice(old.length - tail)),
  ];
}

function splitLines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}
