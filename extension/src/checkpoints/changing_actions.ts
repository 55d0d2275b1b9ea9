/** Which actions may change files, and which paths. The same rules as in sandboxes. */
import type { AgentAction } from "../hub/messages";

/** The files that an action may change: one path or, without a path, any file. */
export interface FileChangeScope {
  path?: string;
  /** Whether the action follows a link: edits do, removals do not. */
  followsLinks?: boolean;
}

const PROGRAMS = new Set([
  "run",
  "run_ipython",
  "vscode_command",
  "debug_start",
  "debug_continue",
  "debug_step",
  "debug_evaluate",
  "list_tests",
  "run_tests",
  "run_cells",
  "run_task",
  "git_commit", // its hooks are programs
]);
/** A rename or a refactoring changes whatever files use the symbol. */
const REFACTORINGS = new Set(["rename_symbol", "apply_code_action"]);
const EDITS = new Set(["write", "edit", "mkdir", "format", "organize_imports", "edit_cells"]);
const REMOVALS = new Set(["rm", "rmdir"]);
/** Requests of scripts that may change files. All other requests only show or read something. */
const BRIDGE_REQUESTS = new Set(["vscode/applyEdit", "vscode/executeCommand"]);
/** Actions that save documents in the editor themselves, so that a save is not the user's. */
const SAVES_DOCUMENTS = new Set([
  "vscode_command",
  "bridge",
  "format",
  "organize_imports",
  "edit_cells",
  "run_cells",
  ...REFACTORINGS,
]);

/** Undefined if the action changes no files. */
export function changeScope(
  { action: kind, args: given }: AgentAction,
  absolute: (path: string) => string,
): FileChangeScope | undefined {
  const args = given as Record<string, unknown>;
  if (PROGRAMS.has(kind) || REFACTORINGS.has(kind)) return {};
  if (kind === "bridge") return BRIDGE_REQUESTS.has(String(args["request"])) ? {} : undefined;
  if (kind === "edit" && args["command"] === "view") return undefined;
  const isRemoval = REMOVALS.has(kind);
  if (!isRemoval && !EDITS.has(kind)) return undefined;
  return { path: absolute(String(args["path"])), followsLinks: !isRemoval };
}

export function savesDocuments(kind: string): boolean {
  return SAVES_DOCUMENTS.has(kind);
}
