/** Turns an action into a consent request: its arguments, resolved paths and working directory. */
import type { ConsentRequest, RequestPath } from "../consent/request";
import { partsOf } from "../consent/request";
import type { AgentAction } from "../hub/messages";
import type { PathResolver } from "./paths";

/** Kinds that change the file they name; `edit` may also just look at it. */
const WRITES = new Set(["write", "edit", "rm", "mkdir", "rmdir"]);
const RUNS = new Set(["run", "run_ipython"]);
const BRIDGE_WRITES = new Set(["vscode/applyEdit"]);

type Args = Readonly<Record<string, unknown>>;

export async function consentRequest(
  action: AgentAction,
  { resolver, cwd, hub }: { resolver: PathResolver; cwd: string; hub: string },
): Promise<ConsentRequest> {
  const args = action.args as Args;
  const given = typeof args["cwd"] === "string" ? args["cwd"] : "";
  return {
    kind: action.action,
    requester: { name: action.agent, hub },
    cwd: RUNS.has(action.action) ? given || cwd : "",
    paths: await pathsOf(action.action, args, resolver, cwd),
    parts: partsOf(args),
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
  const isWritten = WRITES.has(kind) && !(kind === "edit" && args["command"] === "view");
  // `rm` removes a symbolic link itself; all other actions follow it.
  const found = await resolver.find(given, cwd, { follow: kind !== "rm", toRead: !isWritten });
  return [{ given: found.shown, real: found.real, isWritten }];
}

/** Every absolute `path` anywhere in the parameters: each edit has its own. */
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
  const isWritten = BRIDGE_WRITES.has(request);
  const paths = [...given].map(async (path) => ({
    given: path,
    real: await resolver.real(path),
    isWritten,
  }));
  return Promise.all(paths);
}
