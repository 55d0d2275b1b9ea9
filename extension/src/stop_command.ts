/** The command "Stop Everything Agents Do Here". */
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

/** Milliseconds to wait for actions after their shells, kernels and browsers were ended. */
const STOP_MS = 10_000;

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
   * Ends actions, questions, shells with all their processes, kernels, browsers, and everything
   * that VS Code started for agents. Revokes permissions first, so that no agent can continue.
   */
  async stop(): Promise<void> {
    const { admitted, runner, started, forgetGrants } = this.parts;
    const isKept = admitted.stop();
    forgetGrants();
    const stopped = runner.stop();
    const alsoStopped = started.stop();
    await this.endProcesses();
    const actions = await within(
      stopped,
      STOP_MS,
      () => new Error("an action is still running"),
    ).catch(() => 0);
    await this.endProcesses(); // again: an action may have started a process meanwhile
    const others = await alsoStopped;
    await isKept;
    this.notify(actions, others);
  }

  private async endProcesses(): Promise<void> {
    const { shells, kernels, browser } = this.parts;
    kernels.stop();
    shells.stop(); // ends every process with this host's mark, kernels and browsers included
    (await browser)?.dispose(); // the next page starts the browser again
  }

  private notify(actions: number, others: number): void {
    const counted = [
      `${actions} ${actions === 1 ? "action" : "actions"}`,
      ...(others ? [`${others} debug sessions, tasks or terminals`] : []),
    ].join(" and ");
    const text = `Bascule: stopped ${counted}. You will be asked again before an agent acts here.`;
    const allows = Object.values(setting("consent")).includes("allow");
    const follow = "Apply the Consent Settings Again";
    void vscode.window.showInformationMessage(text, ...(allows ? [follow] : [])).then((answer) => {
      if (answer) void vscode.commands.executeCommand(CommandId.followSettings);
    });
  }
}
