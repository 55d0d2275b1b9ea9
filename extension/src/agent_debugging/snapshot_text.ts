/**
 * A snapshot of a program in the debugger as text: where it is, its stack, variables and output.
 */

export interface FrameItem {
  [name: string]: unknown;
  frame: number;
  name: string;
  path: string | null;
  line: number;
}

export interface VariableItem {
  [name: string]: unknown;
  scope?: string;
  name: string;
  value: string;
  type: string;
}

export interface Snapshot {
  state: "stopped" | "running" | "ended";
  name: string;
  reason: string;
  description: string;
  exit_code: number | null;
  path: string | null;
  line: number | null;
  thread: number | null;
  threads: { id: number; name: string; stopped: boolean }[];
  frames: FrameItem[];
  lines: { line: number; text: string }[];
  variables: VariableItem[];
  output: string;
  truncated: boolean;
  taken_over: boolean;
}

/** Maximum characters of a value or a line of code. */
const MAX_VALUE_CHARS = 200;

export function snapshotText(snapshot: Snapshot, frame = 0): string {
  const { output } = snapshot;
  return [
    headline(snapshot),
    ...section(
      "Source",
      snapshot.lines.map((each) => sourceLine(each, shownLine(snapshot, frame))),
    ),
    ...section(
      "Stack",
      snapshot.frames.map((each) => frameLine(each, frame)),
    ),
    ...section("Variables", snapshot.variables.map(variableLine)),
    ...(snapshot.threads.length > 1 ? section("Threads", snapshot.threads.map(threadLine)) : []),
    ...(output ? ["Output since the last answer:", output.replace(/\n$/, "")] : []),
  ].join("\n");
}

export function shortValue(value: string): string {
  const line = value.replace(/\s*\n\s*/g, " ");
  return line.length > MAX_VALUE_CHARS ? `${line.slice(0, MAX_VALUE_CHARS - 1)}…` : line;
}

export function variableLine({ scope, name, value, type }: VariableItem): string {
  const typed = type && !value.includes(type) && type !== typeNameOf(value) ? ` (${type})` : "";
  const where = scope ? `${scope}: ` : "";
  return `  ${where}${name} = ${value}${typed}`;
}

/** What the user did, for a note; empty if nothing. */
export function takeoverNote(requests: readonly string[]): string {
  if (!requests.length) return "";
  const done = requests.map((each) => REQUEST_WORDS[each] ?? each).join(", ");
  return `The user took over the debugger since your last answer: ${done}`;
}

const REQUEST_WORDS: Readonly<Record<string, string>> = {
  continue: "continued",
  next: "stepped over",
  stepIn: "stepped in",
  stepOut: "stepped out",
  pause: "paused",
  restart: "restarted",
  terminate: "ended the program",
  disconnect: "ended the session",
};

function headline({ state, name, reason, description, exit_code, frames }: Snapshot): string {
  if (state === "running") return `'${name}' is still running`;
  if (state === "ended")
    return `'${name}' has ended${exit_code === null ? "" : ` with exit code ${exit_code}`}`;
  const [top] = frames;
  const place = top ? ` at ${placeOf(top)} in ${top.name}` : "";
  const more = description && description !== reason ? ` (${shortValue(description)})` : "";
  return `Stopped by ${reason || "the debugger"}${more}${place}`;
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length ? [`${title}:`, ...lines] : [];
}

function shownLine({ frames }: Snapshot, frame: number): number | undefined {
  return frames.find((each) => each.frame === frame)?.line;
}

function sourceLine({ line, text }: { line: number; text: string }, at?: number): string {
  return `${line === at ? ">" : " "} ${line}: ${text}`;
}

function frameLine(item: FrameItem, frame: number): string {
  return `${item.frame === frame ? ">" : " "} ${item.frame} ${item.name} ${placeOf(item)}`;
}

function placeOf({ path, line }: FrameItem): string {
  return `${path ?? "(no source)"}:${line}`;
}

function threadLine({ id, name, stopped }: Snapshot["threads"][number]): string {
  return `  ${id} ${name} (${stopped ? "stopped" : "running"})`;
}

/** The type name that the value itself contains, so that the type is not printed twice. */
function typeNameOf(value: string): string {
  if (/^-?\d+(\.\d+)?$/.test(value)) return "number";
  if (/^['"]/.test(value)) return "string";
  if (value === "true" || value === "false") return "boolean";
  return value;
}
