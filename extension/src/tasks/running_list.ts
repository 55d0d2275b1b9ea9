/** Lists what runs in the window: tasks, terminals, and shells and programs of agents. */
import * as vscode from "vscode";
import { observe, type ObservationBody } from "../protocol";
import type { Shells } from "../terminal/shells";
import { processIdOf } from "./process_id";
import { describeTask } from "./task_description";
import type { UserTerminals } from "./user_terminals";

interface RunningItem {
  [name: string]: unknown;
  type: "task" | "terminal" | "shell" | "program";
  name: string;
  pid: number | null;
  command: string;
  agent: string;
  state: "running" | "idle" | "unknown";
}

const MAX_ITEMS = 200;
const MAX_COMMAND_CHARS = 200;

export async function listRunning(
  shells: Shells,
  terminals: UserTerminals,
): Promise<ObservationBody<"list_running">> {
  const all = [...tasks(), ...(await openTerminals(terminals)), ...agentShells(shells)];
  const items = [...all, ...programs(shells)];
  const shown = items.slice(0, MAX_ITEMS);
  const content = shown.map(itemText).join("\n") || "Nothing runs";
  return observe("list_running", content, {
    items: shown,
    truncated: items.length > shown.length,
  });
}

function tasks(): RunningItem[] {
  return vscode.tasks.taskExecutions.map(({ task }) => {
    const { name, command } = describeTask(task, undefined);
    return { type: "task", name, pid: null, command, agent: "", state: "running" };
  });
}

/** The user's terminals, without their commands: reading those needs the user's consent. */
async function openTerminals(terminals: UserTerminals): Promise<RunningItem[]> {
  return Promise.all(
    vscode.window.terminals
      .filter(({ creationOptions }) => !("pty" in creationOptions))
      .map(async (each) => {
        const isKnown = each.shellIntegration !== undefined;
        const state = terminals.isBusy(each) ? "running" : isKnown ? "idle" : "unknown";
        const pid = await processIdOf(each);
        return { type: "terminal", name: each.name, pid, command: "", agent: "", state } as const;
      }),
  );
}

function agentShells(shells: Shells): RunningItem[] {
  return shells.list().map(({ agent, name, isRunning }) => {
    const state = isRunning ? "running" : "idle";
    return { type: "shell", name, pid: null, command: "", agent, state };
  });
}

function programs(shells: Shells): RunningItem[] {
  return shells.programs().map(({ pid, command }) => {
    const cut = command.length > MAX_COMMAND_CHARS;
    const shown = cut ? `${command.slice(0, MAX_COMMAND_CHARS)}…` : command;
    return { type: "program", name: "", pid, command: shown, agent: "", state: "running" };
  });
}

function itemText({ type, name, pid, command, agent, state }: RunningItem): string {
  const facts = [
    ...(pid === null ? [] : [`process ${pid}`]),
    ...(agent ? [`of ${agent}`] : []),
    ...(type === "terminal" || type === "shell" ? [state] : []),
  ];
  const what = [type, name].filter(Boolean).join(" ");
  return `${what}${facts.length ? ` (${facts.join(", ")})` : ""}${command ? `: ${command}` : ""}`;
}
