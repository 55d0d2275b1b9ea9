/** The tasks that VS Code runs before and after a debug session, as its configuration names them. */

type Configuration = Readonly<Record<string, unknown>>;

/** VS Code runs the task of the first key before the session, that of the second one after it. */
const TASK_KEYS = ["preLaunchTask", "postDebugTask"];
/** VS Code runs these too when it restarts the session. */
const RESTART_TASK_KEYS = ["preRestartTask", "postRestartTask"];
/** What VS Code does when a server is ready, except that it starts another configuration. */
const BROWSER_ACTIONS: readonly unknown[] = [
  undefined,
  "openExternally",
  "openIntegratedBrowser",
  "debugWithChrome",
  "debugWithEdge",
];

/**
 * Whether VS Code may run tasks for the configuration. `find` finds all configurations of a name:
 * parts of compounds, and those that `serverReadyAction` starts.
 *
 * Keys count at any depth. VS Code merges the block `linux`, `osx` or `windows` of the browser's
 * platform, which an extension does not know, and debuggers start nested configurations. A name
 * that `find` does not know counts too: VS Code may find it elsewhere, or it has variables.
 */
export function runsTasks(
  configuration: Configuration,
  find: (name: string) => readonly Configuration[],
): boolean {
  const seen = new Set<string>();
  const runs = (each: Configuration): boolean =>
    objectsIn(each).some((part) => hasTask(part) || startedNames(part).some(runsNamed));
  const runsNamed = (name: string): boolean => {
    if (seen.has(name)) return false;
    seen.add(name);
    const found = find(name);
    return !found.length || found.some(runs);
  };
  return runs(configuration);
}

/**
 * The names of tasks that the configuration runs. Without those that VS Code finds in other ways:
 * names with variables, such as `${defaultBuildTask}`, and descriptions of tasks.
 */
export function taskNames(configuration: Configuration): string[] {
  return TASK_KEYS.map((key) => configuration[key]).filter(
    (task): task is string => typeof task === "string" && task !== "" && !task.includes("${"),
  );
}

/** The value and everything in it that is an object. */
function objectsIn(value: unknown): Configuration[] {
  if (!isObject(value)) return [];
  const inner = Object.values(value).flatMap(objectsIn);
  return Array.isArray(value) ? inner : [value, ...inner];
}

/** VS Code also replaces variables in keys: `pre${env:NONE}LaunchTask` is a task. */
function hasTask(part: Configuration): boolean {
  return Object.entries(part).some(
    ([key, value]) =>
      key.includes("${") ||
      ([...TASK_KEYS, ...RESTART_TASK_KEYS].includes(key) && value !== undefined && value !== ""),
  );
}

/** The names of other configurations that VS Code starts for this part of a configuration. */
function startedNames({ configurations, serverReadyAction }: Configuration): string[] {
  const parts = (Array.isArray(configurations) ? configurations : []) as unknown[];
  const names = parts.map((each) => (isObject(each) ? each["name"] : each));
  if (isObject(serverReadyAction)) {
    const { action, config, name } = serverReadyAction;
    // A configuration that stands here itself is one of `objectsIn`.
    if (!BROWSER_ACTIONS.includes(action) && !isObject(config)) names.push(config || (name ?? ""));
  }
  return names.filter((each) => typeof each === "string");
}

function isObject(value: unknown): value is Configuration {
  return typeof value === "object" && value !== null;
}
