/**
 * Lists, runs and stops tasks of VS Code for agents.
 *
 * The question to the user shows what a task runs. VS Code itself runs the task by its name, so
 * `run` checks again that the task is still the same.
 */
import * as vscode from "vscode";
import { abortable } from "../common/abortable";
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import { ensurePageRange } from "../common/page_range";
import { shortOutput } from "../common/shown_output";
import type { AgentAction } from "../hub/messages";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { TaskDescription } from "./task_description";
import { problemText } from "./task_problems";
import { taskKey, TaskRun } from "./task_run";
import { chosenTask, dependenciesOf, knownTasks, type KnownTask } from "./window_tasks";

export interface TaskCall {
  /** Time of `performance.now()` at which the answer is due. */
  until: number;
  signal: AbortSignal;
}

interface TaskPlan {
  known: KnownTask;
  dependencies: KnownTask[];
}

/** Maximum problems in an answer. */
const MAX_PROBLEMS = 100;
/** Milliseconds without new problems or processes after which a background task is complete. */
const QUIET_MS = 2000;
/** Milliseconds to wait for a process. Later, the program is missing or VS Code asks the user. */
const START_MS = 15_000;
const STOP_MS = 10_000;

export class AgentTasks implements Disposable {
  private readonly plans = new WeakMap<AgentAction, TaskPlan>();
  /** Running tasks that agents started, by `taskKey`. */
  private readonly runs = new Map<string, TaskRun>();

  /** `onStarted` is called with every task that starts for an agent. */
  constructor(private readonly onStarted: (execution: vscode.TaskExecution) => void) {}

  /** What the task runs, for the question to the user. Fails if there is no such task. */
  async shownArguments(action: AgentAction): Promise<Record<string, unknown>> {
    if (action.action !== "run_task") return {};
    const plan = await planFor(action.args);
    if (!this.plans.has(action)) this.plans.set(action, plan);
    return shown(plan);
  }

  async list(
    args: ArgsOf<"list_tasks">,
    signal: AbortSignal,
  ): Promise<ObservationBody<"list_tasks">> {
    const { query = "", offset = 0, limit = 100 } = args;
    ensurePageRange({ offset, limit });
    const all = await abortable(knownTasks(), signal);
    const running = new Set(vscode.tasks.taskExecutions.map(({ task }) => taskKey(task)));
    const fitting = all.filter(
      ({ description: { name, command } }) => name.includes(query) || command.includes(query),
    );
    const items = fitting
      .slice(offset, offset + limit)
      .map(({ task, description }) => listed(description, running.has(taskKey(task))));
    const truncated = offset + items.length < fitting.length;
    const content = items.map(listedText).join("\n") || "No tasks";
    const seen = observe("list_tasks", content, { items, total: fitting.length, truncated });
    if (!truncated) return seen;
    const next = offset + items.length;
    return { ...seen, note: `${fitting.length} tasks; continue with \`offset\` ${next}` };
  }

  async run(
    args: ArgsOf<"run_task">,
    action: AgentAction,
    call: TaskCall,
  ): Promise<ObservationBody<"task">> {
    const planned = this.plans.get(action);
    const plan = await abortable(planFor(args), call.signal);
    if (planned && JSON.stringify(shown(plan)) !== JSON.stringify(shown(planned)))
      throw new Failure(
        "consent.denied",
        "'run_task' was not done: the task changed after it was admitted; send it again",
      );
    this.ensureIdle(plan.known);
    const key = taskKey(plan.known.task);
    const run = new TaskRun(plan.known, plan.dependencies, this.onStarted);
    this.runs.set(key, run);
    void run.ended.then(() => this.runs.delete(key));
    const stop = (): void => run.stop();
    call.signal.addEventListener("abort", stop, { once: true });
    try {
      await this.start(run, key);
      await abortable(endOrTime(run, call), call.signal);
      return await report(run, args.output_limit ?? 8000);
    } finally {
      call.signal.removeEventListener("abort", stop);
      if (run.isOver) run.dispose();
      else void run.ended.then(() => run.dispose());
    }
  }

  /** Also stops tasks that the user started. */
  async stop(
    { name, folder = "" }: ArgsOf<"stop_task">,
    call: TaskCall,
  ): Promise<ObservationBody<"task">> {
    const running = await abortable(runningTasks(), call.signal);
    const known = running.length ? chosenTask(running, { name, folder }) : undefined;
    if (!known) throw new Failure("task.not_found", `'${name}' does not run; no task runs`);
    const started = this.runs.get(taskKey(known.task));
    const run = started ?? new TaskRun(known, [], () => undefined);
    try {
      run.stop();
      const until = Math.min(call.until, performance.now() + STOP_MS);
      await eventOrTime([run.ended], until);
      if (!run.isOver)
        throw new Failure(
          "action.timed_out",
          `VS Code has not reported the end of '${name}'. If its program does not exist, VS Code keeps it in its list of running tasks`,
        );
      return await report(run, 8000);
    } finally {
      if (!started) run.dispose();
    }
  }

  dispose(): void {
    for (const run of this.runs.values()) run.dispose();
    this.runs.clear();
  }

  private async start(run: TaskRun, key: string): Promise<void> {
    try {
      await run.start();
    } catch (error) {
      this.runs.delete(key);
      run.dispose();
      throw new Failure("execution", `VS Code cannot run the task: ${messageOf(error)}`);
    }
  }

  /** VS Code would ask the user whether to start the task again. */
  private ensureIdle({ task, description: { name } }: KnownTask): void {
    const key = taskKey(task);
    if (!vscode.tasks.taskExecutions.some((each) => taskKey(each.task) === key)) return;
    throw new Failure(
      "task.running",
      `The task '${name}' already runs; \`stop_task\` ends it, \`diagnostics\` has its problems`,
    );
  }
}

async function planFor(args: ArgsOf<"run_task">): Promise<TaskPlan> {
  const all = await knownTasks();
  const known = chosenTask(all, args);
  return { known, dependencies: dependenciesOf(known, all) };
}

async function runningTasks(): Promise<KnownTask[]> {
  const keys = new Set(vscode.tasks.taskExecutions.map(({ task }) => taskKey(task)));
  if (!keys.size) return [];
  return (await knownTasks()).filter(({ task }) => keys.has(taskKey(task)));
}

/** Waits until the task or the time ends. A background task: until it reports no new problems. */
async function endOrTime(run: TaskRun, { until }: TaskCall): Promise<void> {
  const startedBy = Math.min(until, performance.now() + START_MS);
  await eventOrTime([run.processStarted, run.ended], startedBy);
  if (!run.hasProcess) return;
  if (!run.known.description.isBackground) return eventOrTime([run.ended], until);
  while (!run.isOver && performance.now() < until && run.quietMs < QUIET_MS)
    await eventOrTime([run.ended], Math.min(until, performance.now() + QUIET_MS - run.quietMs));
}

/** Waits until one of the events has happened, at most until the time `until`. */
async function eventOrTime(events: readonly Promise<void>[], until: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, until - performance.now()));
  });
  await Promise.race([...events, late]);
  clearTimeout(timer);
}

async function report(run: TaskRun, outputLimit: number): Promise<ObservationBody<"task">> {
  if (run.isOver) await run.problems.settle();
  const { name } = run.known.description;
  const found = run.problems.list();
  const problems = found.slice(0, MAX_PROBLEMS);
  const taken = await run.takeOutput();
  const cut = taken && shortOutput(taken.text, outputLimit, taken.leftOut);
  const state = run.isOver ? (run.isStopped ? "stopped" : "ended") : "running";
  const exitCode = run.isOver ? run.exitCode : null;
  const duration = (performance.now() - run.startedAt) / 1000;
  const content = [
    headline(run, name, exitCode, duration),
    ...problems.map(problemText),
    ...(found.length > problems.length ? [`and ${found.length - problems.length} more`] : []),
    ...(cut?.text.trim() ? ["Output:", cut.text.trimEnd()] : []),
    ...(cut || !run.hasProcess ? [] : ["VS Code does not hand out its output"]),
  ].join("\n");
  return observe("task", content, {
    name,
    state,
    exit_code: exitCode,
    problems,
    output: cut?.text ?? null,
    duration,
    truncated: found.length > problems.length || (cut?.isCut ?? false),
  });
}

function headline(run: TaskRun, name: string, exitCode: number | null, seconds: number): string {
  const time = `${seconds.toFixed(1)} s`;
  if (run.isOver && run.isStopped) return `'${name}' was stopped after ${time}`;
  if (!run.hasProcess && exitCode === null)
    return `'${name}' has not started a process in ${time}: its program is missing, or VS Code asks the user something`;
  if (run.isOver) {
    const code =
      exitCode === null
        ? "without an exit code (its program may be missing)"
        : `with exit code ${exitCode}`;
    return `'${name}' ended ${code} after ${time}`;
  }
  return `'${name}' still runs after ${time}; \`stop_task\` ends it`;
}

function shown({ known, dependencies }: TaskPlan): Record<string, unknown> {
  const { command, cwd, env, detail, source, runsExtensionCode } = known.description;
  return {
    command: runsExtensionCode ? `(code of the extension for '${source}' tasks)` : command,
    directory: cwd,
    env,
    detail,
    runs_before: dependencies.map(({ description }) => commandText(description)),
  };
}

function commandText({ name, command, detail }: TaskDescription): string {
  return [name, command || detail].filter(Boolean).join(": ");
}

function listed(description: TaskDescription, isRunning: boolean): Record<string, unknown> {
  const { name, source, folder, command, cwd, detail, group } = description;
  return {
    ...{ name, source, folder, command, cwd, detail, group },
    depends_on: description.dependsOn,
    is_background: description.isBackground,
    is_running: isRunning,
  };
}

function listedText(item: Record<string, unknown>): string {
  const {
    name,
    folder,
    command,
    detail,
    depends_on: before,
  } = item as {
    [key: string]: string;
  } & { depends_on: string[] };
  const marks = [
    ...(item["is_running"] ? ["running"] : []),
    ...(item["is_background"] ? ["background"] : []),
    ...(before.length ? [`after ${before.join(", ")}`] : []),
    ...(detail ? [detail] : []),
    ...(folder ? [`in ${folder}`] : []),
  ];
  const runs = command ? `: ${command}` : "";
  return `${name}${runs}${marks.length ? ` (${marks.join("; ")})` : ""}`;
}
