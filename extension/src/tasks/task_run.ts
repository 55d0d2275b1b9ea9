/** One run of a task, with the tasks that it depends on: its processes, output and problems. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { taskName } from "./task_description";
import { TaskOutput } from "./task_output";
import { TaskProblems } from "./task_problems";
import { problemSources, type KnownTask } from "./window_tasks";

export class TaskRun implements Disposable {
  /** Resolves when VS Code reports the end of the task. */
  readonly ended: Promise<void>;
  /** Resolves when the first process of the task, or of one that it depends on, has started. */
  readonly processStarted: Promise<void>;
  readonly problems: TaskProblems;
  readonly startedAt = performance.now();
  isOver = false;
  isStopped = false;
  /** Exit code of the task itself, or of the dependency that failed. */
  exitCode: number | null = null;
  private readonly owned = new Disposables();
  private readonly output = this.owned.add(new TaskOutput());
  private readonly processIds = new Set<number>();
  private readonly keys: ReadonlySet<string>;
  private newestProcessAt = performance.now();
  private execution: vscode.TaskExecution | undefined;

  constructor(
    readonly known: KnownTask,
    dependencies: readonly KnownTask[],
    onStarted: (execution: vscode.TaskExecution) => void,
  ) {
    const all = [...dependencies, known];
    const own = taskKey(known.task);
    this.keys = new Set(all.map(({ task }) => taskKey(task)));
    this.problems = this.owned.add(new TaskProblems(problemSources(all)));
    const { tasks } = vscode;
    const isOurs = ({ task }: vscode.TaskExecution): boolean => this.keys.has(taskKey(task));
    this.owned.add(
      tasks.onDidStartTask(({ execution }) => isOurs(execution) && onStarted(execution)),
    );
    this.processStarted = new Promise((resolve) => {
      this.owned.add(
        tasks.onDidStartTaskProcess(({ execution, processId }) => {
          if (!isOurs(execution)) return;
          this.processIds.add(processId);
          this.newestProcessAt = performance.now();
          resolve();
        }),
      );
    });
    this.owned.add(
      tasks.onDidEndTaskProcess(({ execution, exitCode }) => {
        if (!isOurs(execution)) return;
        const isOwn = taskKey(execution.task) === own;
        if (isOwn || exitCode || this.exitCode === null) this.exitCode = exitCode ?? null;
      }),
    );
    this.ended = new Promise((resolve) => {
      this.owned.add(
        tasks.onDidEndTask(({ execution }) => {
          if (taskKey(execution.task) !== own) return;
          this.isOver = true;
          resolve();
        }),
      );
    });
  }

  async start(): Promise<void> {
    this.execution = await vscode.tasks.executeTask(this.known.task);
  }

  /** Whether a process of the task, or of one that it depends on, has started. */
  get hasProcess(): boolean {
    return this.processIds.size > 0;
  }

  /** Milliseconds since the last process started or the problems last changed. */
  get quietMs(): number {
    return Math.min(this.problems.quietMs, performance.now() - this.newestProcessAt);
  }

  stop(): void {
    this.isStopped = true;
    this.execution?.terminate();
    for (const each of vscode.tasks.taskExecutions)
      if (this.keys.has(taskKey(each.task))) each.terminate();
  }

  /** Its output since the last call. Undefined if VS Code does not hand it out. */
  takeOutput(): Promise<{ text: string; leftOut: number } | undefined> {
    return this.output.take(this.processIds, this.isOver);
  }

  dispose(): void {
    this.owned.dispose();
  }
}

export function taskKey(task: vscode.Task): string {
  const folder = typeof task.scope === "object" ? task.scope.uri.toString() : "";
  return JSON.stringify([taskName(task), folder]);
}
