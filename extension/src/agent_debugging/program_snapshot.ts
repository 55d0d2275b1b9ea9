/** Asks debug adapters where a program is: threads, stack, source lines and local variables. */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import type { LanguageDocuments } from "../language/language_documents";
import type { ThreadStop } from "./debug_run";
import type { DebuggedProgram } from "./debugged_program";
import { shortValue, type FrameItem, type Snapshot, type VariableItem } from "./snapshot_text";

const MAX_FRAMES = 20;
const MAX_VARIABLES = 50;
const MAX_THREADS = 50;
/** Lines of source before and after the current line. */
const CONTEXT_LINES = 3;

interface DapFrame {
  id: number;
  name: string;
  line: number;
  source?: { path?: string; name?: string };
  presentationHint?: string;
}

interface DapVariable {
  name: string;
  value: string;
  type?: string;
  variablesReference?: number;
}

interface DapScope {
  name: string;
  variablesReference: number;
  expensive?: boolean;
}

export interface FoundFrame {
  item: FrameItem;
  id: number;
}

export type Place = Pick<
  Snapshot,
  "path" | "line" | "thread" | "threads" | "frames" | "lines" | "variables" | "truncated"
>;

export const NO_PLACE: Place = {
  path: null,
  line: null,
  thread: null,
  threads: [],
  frames: [],
  lines: [],
  variables: [],
  truncated: false,
};

/** Where a stopped thread is, with source and variables of one frame. */
export async function placeOf(
  program: DebuggedProgram,
  stop: ThreadStop,
  frame: number,
  documents: LanguageDocuments,
): Promise<Place> {
  const { frames, more } = await framesOf(program, stop);
  const chosen = frameAt(frames, frame);
  const [threads, lines, found] = await Promise.all([
    threadsOf(program, stop.session),
    sourceAround(chosen.item, documents),
    variablesOf(program, stop.session, chosen.id),
  ]);
  return {
    path: chosen.item.path,
    line: chosen.item.line,
    thread: stop.thread,
    threads,
    frames: frames.map(({ item }) => item),
    lines,
    variables: found.items,
    truncated: more || found.more,
  };
}

export async function framesOf(
  program: DebuggedProgram,
  { session, thread: threadId }: ThreadStop,
): Promise<{ frames: FoundFrame[]; more: boolean }> {
  const args = { threadId, startFrame: 0, levels: MAX_FRAMES + 1 };
  const { stackFrames } = await program.request<{ stackFrames: DapFrame[] }>(
    session,
    "stackTrace",
    args,
  );
  // A label separates the parts of an asynchronous stack.
  const real = stackFrames.filter(({ presentationHint }) => presentationHint !== "label");
  const frames = real.slice(0, MAX_FRAMES).map(({ id, name, line, source }, frame) => ({
    id,
    item: { frame, name, path: pathOf(source), line },
  }));
  return { frames, more: real.length > MAX_FRAMES };
}

export function frameAt(frames: readonly FoundFrame[], frame: number): FoundFrame {
  const found = frames[frame];
  if (found) return found;
  throw new Failure(
    "file.invalid_range",
    frames.length
      ? `The stack has frames 0 to ${frames.length - 1}; \`frame\` is ${frame}`
      : "The thread has no stack",
  );
}

export async function scopesOf(
  program: DebuggedProgram,
  session: string,
  frameId: number,
): Promise<DapScope[]> {
  const { scopes } = await program.request<{ scopes: DapScope[] }>(session, "scopes", { frameId });
  return scopes.filter(({ expensive }) => !expensive);
}

/** The parts of a value or the variables of a scope. */
export async function partsOfValue(
  program: DebuggedProgram,
  session: string,
  variablesReference: number,
): Promise<{ items: VariableItem[]; more: boolean }> {
  const { variables } = await program.request<{ variables: DapVariable[] }>(session, "variables", {
    variablesReference,
  });
  const items = variables
    .slice(0, MAX_VARIABLES)
    .map(({ name, value, type = "" }) => ({ name, value: shortValue(value), type }));
  return { items, more: variables.length > MAX_VARIABLES };
}

async function variablesOf(
  program: DebuggedProgram,
  session: string,
  frameId: number,
): Promise<{ items: VariableItem[]; more: boolean }> {
  const items: VariableItem[] = [];
  let more = false;
  for (const { name, variablesReference } of await scopesOf(program, session, frameId)) {
    if (items.length >= MAX_VARIABLES) return { items, more: true };
    const found = await partsOfValue(program, session, variablesReference);
    items.push(...found.items.map((each) => ({ scope: name, ...each })));
    more ||= found.more;
  }
  return { items: items.slice(0, MAX_VARIABLES), more: more || items.length > MAX_VARIABLES };
}

export async function threadsOf(
  program: DebuggedProgram,
  session: string,
): Promise<Snapshot["threads"]> {
  const { threads = [] } = await program.request<{ threads?: { id: number; name: string }[] }>(
    session,
    "threads",
    {},
  );
  return threads
    .slice(0, MAX_THREADS)
    .map(({ id, name }) => ({ id, name, stopped: program.run.isStopped(session, id) }));
}

/** In a remote window VS Code turns the paths of adapters into URIs. */
function pathOf(source: DapFrame["source"]): string | null {
  const given = source?.path ?? source?.name ?? null;
  if (!given?.includes("://")) return given;
  const uri = vscode.Uri.parse(given);
  return ["file", "vscode-remote"].includes(uri.scheme) ? uri.path : given;
}

/** Empty if the agent may not read the file, or the path is not a file. */
async function sourceAround(
  { path, line }: FrameItem,
  documents: LanguageDocuments,
): Promise<Snapshot["lines"]> {
  if (!path?.startsWith("/") || !(await documents.mayRead(path))) return [];
  let document: vscode.TextDocument;
  try {
    document = await vscode.workspace.openTextDocument(vscode.Uri.file(path));
  } catch {
    return []; // the debugger names a file that does not exist
  }
  const first = Math.max(1, line - CONTEXT_LINES);
  const last = Math.min(document.lineCount, line + CONTEXT_LINES);
  const numbers = Array.from({ length: Math.max(0, last - first + 1) }, (_, n) => first + n);
  return numbers.map((each) => ({
    line: each,
    text: document.lineAt(each - 1).text.slice(0, 200),
  }));
}
