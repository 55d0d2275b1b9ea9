/** Starts what may ask this window: a net, as a task, or a terminal. Each is a run of its own. */
import * as path from "node:path";
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { Failure } from "../common/failure";
import type { Connection, RunBridge } from "./server";

export interface LaunchSettings {
  isEnabled: () => boolean;
  /** A Python that has bascule; empty for the `bascule` command. */
  python: () => string;
}

const NETS = [".evolve.yaml", ".evolve.yml", ".pnml.yaml", ".pnml"];

export class Launcher implements Disposable {
  private readonly watching: vscode.Disposable[];
  private readonly tasks = new Map<vscode.TaskExecution, Connection>();
  private readonly terminals = new Map<vscode.Terminal, Connection>();

  constructor(
    private readonly bridge: RunBridge,
    private readonly settings: LaunchSettings,
    private readonly onEnded: (run: string) => void,
  ) {
    this.watching = [
      vscode.tasks.onDidEndTask(({ execution }) => this.ended(this.tasks, execution)),
      vscode.window.onDidCloseTerminal((terminal) => this.ended(this.terminals, terminal)),
    ];
  }

  /** Runs the net in `given`, or in the active editor; its unsaved changes are saved first. */
  async runNet(given?: unknown): Promise<void> {
    ensureTrusted();
    const uri = given instanceof vscode.Uri ? given : vscode.window.activeTextEditor?.document.uri;
    if (uri?.scheme !== "file" || !NETS.some((end) => uri.path.endsWith(end)))
      throw new Failure("bridge.invalid_params", `Open a net first: a file ${NETS.join(", ")}`);
    await save(uri);
    const connection = await this.open(path.basename(uri.fsPath));
    const [command, ...args] = this.command(["run", uri.fsPath]);
    const folder = vscode.workspace.getWorkspaceFolder(uri);
    const cwd = folder?.uri.fsPath ?? path.dirname(uri.fsPath);
    const env = { ...(connection?.environment ?? {}) };
    const task = new vscode.Task(
      { type: "bascule-net", file: uri.fsPath },
      folder ?? vscode.TaskScope.Workspace,
      path.basename(uri.fsPath),
      "Bascule",
      new vscode.ProcessExecution(command, args, { cwd, env }),
      [],
    );
    task.presentationOptions = { clear: true, showReuseMessage: false };
    await this.track(this.tasks, connection, () => vscode.tasks.executeTask(task));
  }

  /** A terminal whose scripts can ask this window. */
  async openTerminal(): Promise<void> {
    ensureTrusted();
    const connection = await this.open("A script in the bridged terminal");
    if (!connection)
      throw new Failure("bridge.unavailable", "The setting evolve.runBridge.enabled is off");
    const terminal = await this.track(this.terminals, connection, () =>
      Promise.resolve(
        vscode.window.createTerminal({
          name: "Bridged",
          iconPath: new vscode.ThemeIcon("plug"),
          env: { ...connection.environment },
          // After a reload its variables would name a server that is gone.
          isTransient: true,
        }),
      ),
    );
    terminal.show();
  }

  dispose(): void {
    for (const each of this.watching) each.dispose();
    for (const all of [this.tasks, this.terminals]) {
      for (const connection of all.values()) connection.dispose();
      all.clear();
    }
  }

  /** Nothing when the user has switched the run bridge off: a net that needs none runs all the same. */
  private open(name: string): Promise<Connection | undefined> {
    return this.settings.isEnabled() ? this.bridge.open(name) : Promise.resolve(undefined);
  }

  private async track<K>(
    all: Map<K, Connection>,
    connection: Connection | undefined,
    start: () => Thenable<K>,
  ): Promise<K> {
    try {
      const started = await start();
      if (connection) all.set(started, connection);
      return started;
    } catch (error) {
      connection?.dispose();
      throw error;
    }
  }

  private ended<K>(all: Map<K, Connection>, which: K): void {
    const connection = all.get(which);
    if (!connection) return;
    all.delete(which);
    connection.dispose();
    this.onEnded(connection.session);
  }

  private command(args: string[]): [string, ...string[]] {
    const python = this.settings.python();
    return python ? [python, "-m", "bascule", ...args] : ["bascule", ...args];
  }
}

async function save(uri: vscode.Uri): Promise<void> {
  const open = vscode.workspace.textDocuments.find(
    (each) => each.uri.toString() === uri.toString(),
  );
  if (open?.isDirty && !(await open.save()))
    throw new Failure("bridge.failed", `${uri.fsPath} could not be saved, so it was not run`);
}

function ensureTrusted(): void {
  if (!vscode.workspace.isTrusted)
    throw new Failure("bridge.not_allowed", "Nothing is started in a workspace you do not trust");
}
