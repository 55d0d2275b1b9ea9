/** Notifies the user that an agent was refused, once for each agent and reason. */
import * as vscode from "vscode";
import type { Refusal } from "../actions/consent";
import { withoutLinks, visible } from "../consent/visible_text";
import type { AgentAction } from "../hub/messages";
import { CommandId } from "../manifest";

const TRUST = "Manage Workspace Trust";
const SETTINGS = "Open Settings";
const RULES = "Show Rules";

export class RefusalNotices {
  private readonly notified = new Set<string>();

  notify(action: AgentAction, why: Refusal): void {
    const who = withoutLinks(visible(action.agent));
    const key = `${why} ${action.agent} ${why === "settings" ? action.action : ""}`;
    // An unanswered question is reported each time; the other reasons do not change.
    if (why !== "time" && this.notified.has(key)) return;
    this.notified.add(key);
    const what = `Bascule refused a '${visible(action.action)}' action from ${who}`;
    switch (why) {
      case "untrusted":
        return this.show(
          `${what}: this workspace is not trusted.`,
          TRUST,
          "workbench.trust.manage",
        );
      case "settings":
        return this.show(
          `${what}: the setting bascule.consent forbids it.`,
          SETTINGS,
          "workbench.action.openSettings",
          "bascule.consent",
        );
      case "rules":
        return this.show(`${what}: a deny rule matches its command.`, RULES, CommandId.showRules);
      case "time":
        return this.show(`${what}: nobody answered the question in time.`);
    }
  }

  private show(text: string, button?: string, ...command: string[]): void {
    const [id = "", ...args] = command;
    void vscode.window.showWarningMessage(text, ...(button ? [button] : [])).then((answer) => {
      if (answer && answer === button) void vscode.commands.executeCommand(id, ...args);
    });
  }
}
