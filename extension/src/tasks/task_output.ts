/**
 * Reads what tasks print. VS Code runs tasks in terminals and reports each as the execution of a
 * shell; this is the only way in which its stable API hands out the output.
 */
import * as vscode from "vscode";
import { within } from "../common/deadline";
import type { Disposable } from "../common/disposables";
import { OutputTail } from "../agent_debugging/output_tail";
import { followOutput } from "./execution_output";
import { processIdOf } from "./process_id";

/** Maximum characters kept of the output of each process. */
const MAX_CHARS = 256 << 10;
/** Milliseconds to wait for the last output of a process that has ended. */
const END_MS = 2000;

interface ReadExecution {
  terminal: vscode.Terminal;
  tail: OutputTail;
  ended: Promise<void>;
}

export class TaskOutput implements Disposable {
  private readonly executions: ReadExecution[] = [];
  private readonly listening: Disposable;

  constructor() {
    this.listening = vscode.window.onDidStartTerminalShellExecution(({ terminal, execution }) => {
      const tail = new OutputTail(MAX_CHARS);
      // Called at once: earlier output is not returned.
      const ended = followOutput(execution, (text) => tail.add(text));
      this.executions.push({ terminal, tail, ended });
    });
  }

  /**
   * The output of the processes with these ids since the last call. Undefined if VS Code reported
   * no execution for any of them.
   */
  async take(
    pids: ReadonlySet<number>,
    isOver: boolean,
  ): Promise<{ text: string; leftOut: number } | undefined> {
    const own: ReadExecution[] = [];
    // A terminal that is used again gets its new process id after the event of the execution.
    for (const each of this.executions)
      if (pids.has((await processIdOf(each.terminal)) ?? -1)) own.push(each);
    if (!own.length) return undefined;
    const complete = Promise.all(own.map(({ ended }) => ended));
    // VS Code ends the stream a moment after the task. It may never end that of a killed terminal.
    const late = (): Error => new Error("the stream did not end");
    if (isOver) await within(complete, END_MS, late).catch(() => undefined);
    const taken = own.map(({ tail }) => tail.take());
    return {
      text: taken.map(({ text }) => text).join(""),
      leftOut: taken.reduce((sum, { leftOut }) => sum + leftOut, 0),
    };
  }

  dispose(): void {
    this.listening.dispose();
  }
}
