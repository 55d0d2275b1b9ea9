/** The tasks that VS Code runs before and after a debug session, as its configuration names them. */

type Configuration = Readonly<Record<string, unknown>>;

/** VS Code runs the task of the first key before the session, that of the second one after it. */
const TASK_KEYS = ["preLaunchTask", "postDebugTask"];

/** Whether VS Code runs tasks for the configuration. `find` finds the parts of compounds. */
export function runsTasks(
  configuration: Configuration,
  find: (name: string) => Configuration | undefined,
): boolean {
  return [configuration, ...partsOf(configuration, find)].some((each) =>
    TASK_KEYS.some((key) => each[key] !== undefined && each[key] !== ""),
  );
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

function partsOf(
  { configurations }: Configuration,
  find: (name: string) => Configuration | undefined,
): Configuration[] {
  const parts = (Array.isArray(configurations) ? configurations : []) as unknown[];
  return parts.flatMap((each) => {
    const name = typeof each === "string" ? each : (each as { name?: unknown } | null)?.name;
    const part = typeof name === "string" ? find(name) : undefined;
    return part ? [part] : [];
  });
}
