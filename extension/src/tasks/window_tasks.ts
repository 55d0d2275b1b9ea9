/** The tasks that VS Code knows, each with its entry in `tasks.json`, if it has one. */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import {
  describeTask,
  entryName,
  matcherSources,
  matchersOf,
  taskName,
  type TaskDescription,
  type TaskEntry,
} from "./task_description";

export interface KnownTask {
  task: vscode.Task;
  description: TaskDescription;
  entry: TaskEntry | undefined;
}

export async function knownTasks(): Promise<KnownTask[]> {
  await activateProviders();
  const entries = new Map<string, readonly TaskEntry[]>();
  return (await vscode.tasks.fetchTasks()).map((task) => {
    const folder = typeof task.scope === "object" ? task.scope : undefined;
    const place = folder?.uri.toString() ?? "";
    const known = entries.get(place) ?? writtenTasks(folder);
    entries.set(place, known);
    const entry = known.find((each) => entryName(each) === taskName(task));
    return { task, entry, description: describeTask(task, entry) };
  });
}

/** VS Code itself waits only 5 seconds for these extensions, and then leaves out their tasks. */
async function activateProviders(): Promise<void> {
  const providers = vscode.extensions.all.filter(({ packageJSON, isActive }) => {
    const { contributes } = packageJSON as { contributes?: { taskDefinitions?: unknown[] } };
    return !isActive && (contributes?.taskDefinitions ?? []).length > 0;
  });
  // An extension that fails to start has no tasks; VS Code reports its error.
  const starting = providers.map(async (each) => {
    await each.activate();
  });
  await Promise.allSettled(starting);
}

/** The task with this name. Fails if there is none, or if several folders have one. */
export function chosenTask(
  tasks: readonly KnownTask[],
  { name, folder }: { name: string; folder?: string | undefined },
): KnownTask {
  const named = tasks.filter((each) => each.description.name === name);
  const found = named.filter((each) => !folder || isIn(each.task, folder));
  const [first, ...others] = found;
  if (!first) {
    const where = folder && named.length ? ` in the folder '${folder}'` : "";
    const all = tasks.map((each) => `'${each.description.name}'`).join(", ");
    throw new Failure(
      "task.not_found",
      `There is no task '${name}'${where}. There are: ${all || "none"}`,
    );
  }
  if (others.some(({ description }) => description.folder !== first.description.folder)) {
    const folders = found.map((each) => each.description.folder || "(the user)").join(", ");
    throw new Failure(
      "task.not_found",
      `Several folders have a task '${name}': ${folders}. Name one with \`folder\``,
    );
  }
  return first;
}

/** The tasks that the task depends on, also indirectly, without the task itself. */
export function dependenciesOf(known: KnownTask, tasks: readonly KnownTask[]): KnownTask[] {
  const found = new Set<KnownTask>();
  const add = ({ description }: KnownTask): void => {
    for (const name of description.dependsOn) {
      const named = tasks.filter((each) => each.description.name === name);
      const next = named.find((each) => each.description.folder === description.folder) ?? named[0];
      if (!next || found.has(next) || next === known) continue;
      add(next);
      found.add(next);
    }
  };
  add(known);
  return [...found];
}

/** See `matcherSources`. */
export function problemSources(
  known: readonly KnownTask[],
): ReadonlySet<string | null> | undefined {
  const matchers = known.flatMap(({ task, entry }) => {
    const written = matchersOf(entry);
    return written.length ? written : task.problemMatchers;
  });
  return matcherSources(matchers, contributedSources());
}

/** The source of the problems of each matcher that an extension contributes. */
function contributedSources(): ReadonlyMap<string, string | null> {
  const found = new Map<string, string | null>();
  for (const { packageJSON } of vscode.extensions.all) {
    const { contributes } = packageJSON as {
      contributes?: { problemMatchers?: { name?: string; source?: string }[] };
    };
    for (const { name, source } of contributes?.problemMatchers ?? [])
      if (name) found.set(`$${name}`, source ?? null);
  }
  return found;
}

function writtenTasks(folder: vscode.WorkspaceFolder | undefined): readonly TaskEntry[] {
  const configuration = vscode.workspace.getConfiguration("tasks", folder?.uri ?? null);
  const tasks = configuration.get<unknown>("tasks");
  if (!Array.isArray(tasks)) return [];
  return tasks.filter((each): each is TaskEntry => typeof each === "object" && each !== null);
}

function isIn({ scope }: vscode.Task, folder: string): boolean {
  return typeof scope === "object" && (scope.name === folder || scope.uri.fsPath === folder);
}
