/** What a task is called and what it runs. Pure rules on values of VS Code's task API. */
import type * as vscode from "vscode";
import { taskLine } from "./task_line";

/** An entry of `tasks` in `tasks.json`, or in the settings of a `.code-workspace` file. */
export type TaskEntry = Readonly<Record<string, unknown>>;

export interface TaskDescription {
  /** Unique in its folder: what the user sees in lists of tasks. */
  name: string;
  source: string;
  /** Name of the workspace folder; empty for tasks of the user or the workspace. */
  folder: string;
  /** The command line. Empty if the task only has dependencies, or runs code of an extension. */
  command: string;
  cwd: string;
  env: Readonly<Record<string, string>>;
  detail: string;
  group: string;
  /** Names of the tasks that run before it. */
  dependsOn: readonly string[];
  isBackground: boolean;
  runsExtensionCode: boolean;
}

/** Sources of tasks whose name VS Code shows without the source. */
const WRITTEN_BY_USERS = new Set(["workspace", "user", "folder", "workspacefile", "$composite"]);
/** Problem matchers that are part of VS Code, with the `source` of their problems. */
const BUILT_IN_MATCHERS: Readonly<Record<string, string>> = {
  $msCompile: "cpp",
  $lessCompile: "less",
  "$gulp-tsc": "ts",
  $jshint: "jshint",
  "$jshint-stylish": "jshint",
  "$eslint-compact": "eslint",
  "$eslint-stylish": "eslint",
  $go: "go",
};

export function taskName({ name, source }: { name: string; source: string }): string {
  return WRITTEN_BY_USERS.has(source.toLowerCase()) ? name : `${source}: ${name}`;
}

/** The description of a task. `entry`: the task in `tasks.json`, if it is there. */
export function describeTask(task: vscode.Task, entry: TaskEntry | undefined): TaskDescription {
  const { execution } = task;
  const options = execution && "options" in execution ? execution.options : undefined;
  return {
    name: taskName(task),
    source: task.source,
    folder: typeof task.scope === "object" ? task.scope.name : "",
    command: taskLine(execution),
    cwd: options?.cwd ?? "",
    env: { ...options?.env },
    detail: task.detail ?? "",
    group: task.group?.id ?? "",
    dependsOn: dependenciesOf(entry),
    isBackground: task.isBackground || entry?.["isBackground"] === true,
    runsExtensionCode: execution !== undefined && !("options" in execution),
  };
}

/** The name under which VS Code knows an entry. */
export function entryName(entry: TaskEntry): string {
  const label = entry["label"] ?? entry["taskName"];
  if (typeof label === "string") return label;
  const { type, script, task } = entry;
  const own = script ?? task;
  return typeof type === "string" && typeof own === "string" ? `${type}: ${own}` : "";
}

/**
 * The `source` of the problems that the matchers report; `null` stands for problems without a
 * source. Undefined if it is unknown, because a matcher is unknown.
 *
 * `contributed` has the source of each matcher that extensions contribute.
 */
export function matcherSources(
  matchers: readonly unknown[],
  contributed: ReadonlyMap<string, string | null>,
): ReadonlySet<string | null> | undefined {
  const found = new Set<string | null>();
  for (const each of matchers) {
    const source = matcherSource(each, contributed);
    if (source === undefined) return undefined;
    found.add(source);
  }
  return found;
}

function matcherSource(
  matcher: unknown,
  contributed: ReadonlyMap<string, string | null>,
): string | null | undefined {
  if (typeof matcher === "string") return BUILT_IN_MATCHERS[matcher] ?? contributed.get(matcher);
  if (typeof matcher !== "object" || matcher === null) return undefined;
  const { source, base } = matcher as { source?: unknown; base?: unknown };
  if (typeof source === "string") return source;
  return typeof base === "string" ? matcherSource(base, contributed) : null;
}

/** The matchers of an entry, as a list. */
export function matchersOf(entry: TaskEntry | undefined): readonly unknown[] {
  const matcher = entry?.["problemMatcher"];
  if (matcher === undefined || matcher === null) return [];
  return Array.isArray(matcher) ? (matcher as unknown[]) : [matcher];
}

function dependenciesOf(entry: TaskEntry | undefined): string[] {
  const given = entry?.["dependsOn"];
  const all = Array.isArray(given) ? (given as unknown[]) : given === undefined ? [] : [given];
  return all.flatMap((each) => {
    if (typeof each === "string") return [each];
    const name = typeof each === "object" && each !== null ? entryName(each as TaskEntry) : "";
    return name ? [name] : [];
  });
}
