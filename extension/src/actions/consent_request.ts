/** Turns an action into a consent request: its arguments, resolved paths and working directory. */
import * as path from "node:path";
import { changeScope } from "../checkpoints/changing_actions";
import type { ConsentRequest, RequestPath } from "../consent/request";
import { partsOf } from "../consent/request";
import type { AgentAction } from "../hub/messages";
import type { PathResolver } from "./paths";

/** Kinds of actions that change the file they name. Exception: the command `view` of `edit`. */
const WRITING_ACTIONS = new Set([
  "write",
  "edit",
  "rm",
  "mkdir",
  "rmdir",
  "rename_symbol",
  "apply_code_action",
  "format",
  "organize_imports",
  "edit_cells",
  "run_cells", // saves the outputs
]);
const ACTIONS_WITH_CWD = new Set(["run", "run_ipython"]);
const WRITING_BRIDGE_REQUESTS = new Set(["vscode/applyEdit"]);

type Args = Readonly<Record<string, unknown>>;

export interface RequestContext {
  resolver: PathResolver;
  cwd: string;
  hub: string;
  /** What checkpoints leave out, or why there are no checkpoints. */
  limitNotes: readonly string[];
  /** Absolute paths that a restore would change. */
  restored: (args: Args) => Promise<string[]>;
  /** The launch configuration that a `debug_start` names. Fails if it does not exist. */
  launch: (args: Args) => Record<string, unknown>;
  /** The command line that an action of another kind than `run` will run, and its directory. */
  lineOf: (action: AgentAction) => { line: string; cwd: string } | undefined;
  /** What else the question shows: the code of cells. Fails if the action names none. */
  shownArguments: (action: AgentAction) => Promise<Args>;
}

export async function consentRequest(
  action: AgentAction,
  { resolver, cwd, hub, limitNotes, restored, launch, lineOf, shownArguments }: RequestContext,
): Promise<ConsentRequest> {
  const args = action.args as Args;
  const given = typeof args["cwd"] === "string" ? args["cwd"] : "";
  const kind = action.action;
  const isRestore = kind === "restore" && args["dry_run"] !== true;
  const paths = isRestore
    ? (await restored(args)).map((real) => ({ given: real, real, isWritten: true }))
    : await pathsOf(kind, args, resolver, cwd);
  const planned = lineOf(action);
  const shown = { ...args, ...(await shownArguments(action)) };
  const mayChange = changeScope(action, (path) => path) !== undefined;
  return {
    kind: action.action,
    requester: { name: action.agent, hub },
    cwd: ACTIONS_WITH_CWD.has(kind) ? path.resolve(cwd, given) : (planned?.cwd ?? ""),
    paths,
    parts: partsOf({
      ...shown,
      ...(kind === "debug_start" ? { configuration: launch(args) } : {}),
      ...(planned ? { command: planned.line } : {}),
    }),
    ...(mayChange && limitNotes.length ? { limitNotes } : {}),
  };
}

async function pathsOf(
  kind: string,
  args: Args,
  resolver: PathResolver,
  cwd: string,
): Promise<RequestPath[]> {
  if (kind === "bridge") return bridgePaths(String(args["request"]), args["params"], resolver);
  const given = args["path"];
  if (typeof given !== "string" || !given) return [];
  const isWritten = WRITING_ACTIONS.has(kind) && !(kind === "edit" && args["command"] === "view");
  // `rm` removes a symbolic link itself; all other actions follow it.
  const found = await resolver.find(given, cwd, { follow: kind !== "rm", toRead: !isWritten });
  return [{ given: found.displayPath, real: found.real, isWritten }];
}

/** Collects every absolute `path` at any depth of the parameters: each edit has its own path. */
async function bridgePaths(
  request: string,
  params: unknown,
  resolver: PathResolver,
): Promise<RequestPath[]> {
  const given = new Set<string>();
  const collect = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [name, each] of Object.entries(value))
      if (name === "path" && typeof each === "string" && each.startsWith("/")) given.add(each);
      else collect(each);
  };
  collect(params);
  const isWritten = WRITING_BRIDGE_REQUESTS.has(request);
  const paths = [...given].map(async (path) => ({
    given: path,
    real: await resolver.real(path),
    isWritten,
  }));
  return Promise.all(paths);
}
