/** The user's "Stop Everything Agents Do Here". */
import * as vscode from "vscode";
import type { AdmittedAgents } from "./actions/admitted_agents";
import type { StartedByAgents } from "./actions/started_by_agents";
import type { BrowserWorker } from "./browser/browser_worker";
import { within } from "./common/deadline";
import type { ActionRunner } from "./hub/action_runner";
import { CommandId } from "./manifest";
import type { Kernels } from "./notebook/kernels";
import { setting } from "./settings";
import type { Shells } from "./terminal/shells";

/** Milliseconds that actions have to end after all they run in was ended. */
const PATIENCE = 10_000;

export interface StopCommandParts {
  admitted: AdmittedAgents;
  runner: ActionRunner;
  shells: Shells;
  kernels: Kernels;
  started: StartedByAgents;
  browser: Promise<BrowserWorker | undefined>;
  forgetGrants: () => void;
}

export class StopCommand {
  constructor(private readonly parts: StopCommandParts) {}

  /**
   * Ends actions and questions, shells and whatever runs in them, kernels, browsers, and what VS Code
   * started for agents. First of all no agent is admitted any more, or it would go on meanwhile.
   */
  async stop(): Promise<void> {
    const { admitted, runner, started, forgetGrants } = this.parts;
    const isKept = admitted.stop();
    forgetGrants();
    const stopped = runner.stop();
    const alsoStopped = started.stop();
    await this.endProcesses();
    const actions = await within(stopped, PATIENCE, () => new Error("an action goes on")).catch(
      () => 0,
    );
    await this.endProcesses(); // what an action had just begun to start
    const others = await alsoStopped;
    await isKept;
    this.tell(actions, others);
  }

  private async endProcesses(): Promise<void> {
    const { shells, kernels, browser } = this.parts;
    kernels.stop();
    shells.stop(); // and every process that has this host's mark: kernels and browsers have it too
    (await browser)?.dispose(); // the next page starts it again
  }

  private tell(actions: number, others: number): void {
    const counted = [
      `${actions} ${actions === 1 ? "action" : "actions"}`,
      ...(others ? [`${others} debug sessions, tasks or terminals`] : []),
    ].join(" and ");
    const text = `Bascule: stopped ${counted}. Agents are asked about again before they act here.`;
    const allows = Object.values(setting("consent")).includes("allow");
    const follow = "Follow the Settings Again";
    void vscode.window.showInformationMessage(text, ...(allows ? [follow] : [])).then((answer) => {
      if (answer) void vscode.commands.executeCommand(CommandId.followSettings);
    });
  }
}
