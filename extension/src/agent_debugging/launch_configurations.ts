/** The launch configurations of the workspace, and the types of debugger that VS Code has. */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { observe, type ObservationBody } from "../protocol";
import { runsTasks, taskNames } from "./launch_tasks";
import { runningVariable } from "./launch_variables";

export interface LaunchConfiguration {
  name: string;
  folder: vscode.WorkspaceFolder | undefined;
  /** The configuration as written in `launch.json`. */
  configuration: Record<string, unknown>;
  isCompound: boolean;
}

/** The arguments of `debug_start` that name a configuration. */
export interface LaunchOrder {
  name?: string | undefined;
  configuration?: Record<string, unknown> | undefined;
  folder?: string | undefined;
}

export function listConfigurations(): ObservationBody<"debug_configurations"> {
  const items = launchConfigurations().map(({ name, folder, configuration, isCompound }) => ({
    name,
    type: isCompound ? "compound" : textOf(configuration["type"]),
    request: isCompound ? "launch" : textOf(configuration["request"]),
    folder: folder?.name ?? "",
    configuration,
  }));
  const lines = items.map(({ name, type, request, configuration }) => {
    const program = configuration["program"] ?? configuration["module"] ?? configuration["url"];
    return `${name}: ${type}, ${request}${typeof program === "string" ? `, ${program}` : ""}`;
  });
  const types = debuggerTypes();
  const content = [
    ...(lines.length ? lines : ["The workspace has no launch configurations"]),
    `Types for a configuration of your own: ${types.join(", ")}`,
  ].join("\n");
  return observe("debug_configurations", content, { items, types });
}

/** The configuration that an action names. Fails if it or its debugger is missing. */
export function configurationOf(order: LaunchOrder): LaunchConfiguration {
  const { name = "", configuration = {}, folder = "" } = order;
  const isAdHoc = Object.keys(configuration).length > 0;
  if (isAdHoc === Boolean(name))
    throw new Failure(
      "debug.no_configuration",
      "Give either the `name` of a launch configuration or a `configuration`",
    );
  if (isAdHoc) ensureNoCommands(configuration);
  const found = isAdHoc ? adHoc(configuration, folder) : named(name, folder);
  const type = found.configuration["type"];
  if (!found.isCompound && !debuggerTypes().includes(String(type)))
    throw new Failure(
      "debug.no_configuration",
      `VS Code has no debugger of the type '${String(type)}'. It has: ${debuggerTypes().join(", ")}`,
    );
  return found;
}

/**
 * Fails if a task that the configuration names does not exist. VS Code would ask the user in a
 * dialog, and the debug session would wait for the answer.
 */
export async function ensureTasksExist({ configuration }: LaunchConfiguration): Promise<void> {
  const wanted = taskNames(configuration);
  if (!wanted.length) return;
  const tasks = await vscode.tasks.fetchTasks();
  const missing = wanted.find(
    (each) => !tasks.some(({ name, source }) => [name, `${source}: ${name}`].includes(each)),
  );
  if (missing === undefined) return;
  const names = tasks.map(({ name }) => `'${name}'`).join(", ") || "none";
  throw new Failure(
    "debug.no_configuration",
    `There is no task '${missing}', which the configuration names. There are: ${names}`,
  );
}

/** Whether VS Code may run tasks before or after the configuration. */
export function startsTasks({ configuration }: LaunchConfiguration): boolean {
  const all = launchConfigurations();
  return runsTasks(configuration, (name) =>
    all.filter((each) => each.name === name).map((each) => each.configuration),
  );
}

/** VS Code would run the commands of such variables, without looking at `bascule.allowedCommands`. */
function ensureNoCommands(configuration: Record<string, unknown>): void {
  const variable = runningVariable(configuration);
  if (variable !== undefined)
    throw new Failure(
      "debug.no_configuration",
      `Your configuration contains ${variable}, which may run a command. Write its value instead; vscode_command runs commands that the user allows`,
    );
}

function adHoc(given: Record<string, unknown>, folder: string): LaunchConfiguration {
  const configuration = { request: "launch", name: "Agent", ...given };
  return { name: configuration.name, folder: folderOf(folder), configuration, isCompound: false };
}

function named(name: string, folder: string): LaunchConfiguration {
  const wanted = folder ? folderOf(folder) : undefined;
  const found = launchConfigurations().find(
    (each) => each.name === name && (!wanted || each.folder === wanted),
  );
  if (found) return found;
  const names = launchConfigurations().map((each) => `'${each.name}'`);
  throw new Failure(
    "debug.no_configuration",
    `There is no launch configuration '${name}'. There are: ${names.join(", ") || "none"}`,
  );
}

function launchConfigurations(): LaunchConfiguration[] {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const places = folders.length ? folders : [undefined];
  const found = places.flatMap((folder) => {
    const launch = vscode.workspace.getConfiguration("launch", folder?.uri ?? null);
    const of = (key: string, isCompound: boolean): LaunchConfiguration[] =>
      launch
        .get<Record<string, unknown>[]>(key, [])
        .filter((each) => typeof each["name"] === "string")
        .map((each) => ({
          name: String(each["name"]),
          folder,
          configuration: { ...each },
          isCompound,
        }));
    return [...of("configurations", false), ...of("compounds", true)];
  });
  return found;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function folderOf(given: string): vscode.WorkspaceFolder | undefined {
  const folders = vscode.workspace.workspaceFolders ?? [];
  if (!given) return folders[0];
  const found = folders.find((each) => each.name === given || each.uri.fsPath === given);
  if (found) return found;
  const names = folders.map((each) => each.name).join(", ") || "none";
  throw new Failure("debug.no_configuration", `There is no folder '${given}'. There are: ${names}`);
}

function debuggerTypes(): string[] {
  const types = vscode.extensions.all.flatMap(({ packageJSON }) => {
    const { contributes } = packageJSON as { contributes?: { debuggers?: { type?: string }[] } };
    return (contributes?.debuggers ?? []).flatMap(({ type }) => type ?? []);
  });
  // The type "*" stands for all types.
  return [...new Set(types)].filter((type) => type !== "*").sort();
}
