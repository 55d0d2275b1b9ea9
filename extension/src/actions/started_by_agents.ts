/** Debug sessions, tasks and terminals that VS Code started for agents' commands. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";

/**
 * VS Code does not report who started a debug session, task or terminal. This class
 * treats whatever starts while an agent's command runs as started by an agent. The same holds for
 * the child sessions of such a debug session.
 */
export class StartedByAgents implements Disposable {
  private readonly owned = new Disposables();
  private readonly sessions = new Set<vscode.DebugSession>();
  private readonly tasks = new Set<vscode.TaskExecution>();
  private readonly terminals = new Set<vscode.Terminal>();
  private runningCommands = 0;

  constructor() {
    const { debug, tasks, window } = vscode;
    this.owned.add(debug.onDidStartDebugSession((session) => this.recordSession(session)));
    this.owned.add(debug.onDidTerminateDebugSession((each) => this.sessions.delete(each)));
    this.owned.add(
      tasks.onDidStartTask(({ execution }) => this.runningCommands && this.tasks.add(execution)),
    );
    this.owned.add(tasks.onDidEndTask(({ execution }) => this.tasks.delete(execution)));
    this.owned.add(
      window.onDidOpenTerminal((each) => {
        if (this.runningCommands && !("pty" in each.creationOptions)) this.terminals.add(each);
      }),
    );
    this.owned.add(window.onDidCloseTerminal((each) => this.terminals.delete(each)));
  }

  /** Runs `work`, an agent's command, and records what VS Code starts in the meantime. */
  async recordDuring<T>(work: () => Promise<T>): Promise<T> {
    this.runningCommands += 1;
    try {
      return await work();
    } finally {
      this.runningCommands -= 1;
    }
  }

  recordTask(execution: vscode.TaskExecution): void {
    this.tasks.add(execution);
  }

  /** Ends all recorded debug sessions, tasks and terminals, and returns their number. */
  async stop(): Promise<number> {
    const [sessions, tasks] = [[...this.sessions], [...this.tasks]];
    const terminals = [...this.terminals];
    for (const each of tasks) each.terminate();
    for (const each of terminals) each.dispose();
    await Promise.all(sessions.map((each) => vscode.debug.stopDebugging(each)));
    return sessions.length + tasks.length + terminals.length;
  }

  dispose(): void {
    this.owned.dispose();
  }

  private recordSession(session: vscode.DebugSession): void {
    const parent = session.parentSession;
    if (this.runningCommands || (parent && this.sessions.has(parent))) this.sessions.add(session);
  }
}
