/** Starts nets (as tasks) and bridged terminals, each as a run with its own token. */
import * as path from "node:path";
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { Failure } from "../common/failure";
import { bascule } from "../common/nets";
import { chosenNet, ensureTrusted, savedNet } from "../nets/selected_net";
import type { FollowedRun } from "../nets/live_markings";
import type { RunConnection, RunBridge } from "./server";

export interface LaunchSettings {
  isEnabled: () => boolean;
  /** A Python that has bascule; empty for the `bascule` command. */
  python: () => string;
  /** Shows the marking of a net while it runs. */
  follow: (net: vscode.Uri) => Promise<FollowedRun | undefined>;
}

/** The resources of a run. There is no connection if the user turned the bridge off. */
interface RunResources {
  connection: RunConnection | undefined;
  followed?: FollowedRun | undefined;
}

export class Launcher implements Disposable {
  private readonly watching: vscode.Disposable[];
  private readonly tasks = new Map<vscode.TaskExecution, RunResources>();
  private readonly terminals = new Map<vscode.Terminal, RunResources>();

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
    const uri = chosenNet(given);
    await savedNet(uri);
    const connection = await this.open(path.basename(uri.fsPath));
    const followed = await this.settings.follow(uri);
    const trace = followed ? ["--trace", followed.file] : [];
    const [command, ...args] = bascule(this.settings.python(), "run", ...trace, uri.fsPath);
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
    await this.track(this.tasks, { connection, followed }, () => vscode.tasks.executeTask(task));
  }

  /** Opens a terminal whose scripts can send requests to this window. */
  async openTerminal(): Promise<void> {
    ensureTrusted();
    const connection = await this.open("A script in the bridged terminal");
    if (!connection)
      throw new Failure("bridge.unavailable", "The setting evolve.runBridge.enabled is off");
    const terminal = await this.track(this.terminals, { connection }, () =>
      Promise.resolve(
        vscode.window.createTerminal({
          name: "Bridged",
          iconPath: new vscode.ThemeIcon("plug"),
          env: { ...connection.environment },
          // Not restored after a reload: its variables would name a server that has ended.
          isTransient: true,
        }),
      ),
    );
    terminal.show();
  }

  dispose(): void {
    for (const each of this.watching) each.dispose();
    for (const all of [this.tasks, this.terminals]) {
      for (const resources of all.values()) release(resources);
      all.clear();
    }
  }

  /** Undefined if the user turned the bridge off; a net that does not need it still runs. */
  private open(name: string): Promise<RunConnection | undefined> {
    return this.settings.isEnabled() ? this.bridge.open(name) : Promise.resolve(undefined);
  }

  private async track<K>(
    all: Map<K, RunResources>,
    resources: RunResources,
    start: () => Thenable<K>,
  ): Promise<K> {
    try {
      const started = await start();
      all.set(started, resources);
      return started;
    } catch (error) {
      release(resources);
      throw error;
    }
  }

  private ended<K>(all: Map<K, RunResources>, which: K): void {
    const resources = all.get(which);
    if (!resources) return;
    all.delete(which);
    release(resources);
    if (resources.connection) this.onEnded(resources.connection.session);
  }
}

function release({ connection, followed }: RunResources): void {
  connection?.dispose();
  void followed?.end();
}
