/** The status bar item: connection, open questions, running actions and workspace trust. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import type { ConnectionState } from "../hub/connection";
import { CommandId } from "../manifest";

export class StatusBar implements Disposable {
  private readonly owned = new Disposables();
  private readonly item = this.owned.add(
    vscode.window.createStatusBarItem("bascule.status", vscode.StatusBarAlignment.Right, 100),
  );
  private busy = 0;
  private asking = 0;
  private redraw: NodeJS.Timeout | undefined;
  private state: ConnectionState = { is: "closed" };

  constructor() {
    this.item.name = "Bascule";
    this.owned.add(vscode.workspace.onDidGrantWorkspaceTrust(() => this.draw()));
    this.draw();
    this.item.show();
  }

  connection(state: ConnectionState): void {
    this.state = state;
    this.draw();
  }

  /** Shows the number of open questions. */
  questions(count: number): void {
    this.asking = count;
    this.draw();
  }

  running(count: number): void {
    this.busy = count;
    // Throttled: agents can be faster than the window redraws.
    this.redraw ??= setTimeout(() => {
      this.redraw = undefined;
      this.draw();
    }, 200);
  }

  dispose(): void {
    clearTimeout(this.redraw);
    this.owned.dispose();
  }

  private draw(): void {
    const { item, state } = this;
    item.command = state.is === "connected" ? CommandId.showActivity : CommandId.connect;
    item.backgroundColor = color(state.is === "refused" ? "error" : undefined);
    if (this.asking) return this.drawQuestions();
    switch (state.is) {
      case "connected":
        this.drawConnected(state.hub);
        break;
      case "connecting":
        item.text = "$(sync~spin) Bascule";
        item.tooltip = `Connecting to ${state.hub}${state.problem ? `: ${state.problem}` : ""}`;
        break;
      case "refused":
        item.text = "$(error) Bascule";
        item.tooltip = `${state.hub}: ${state.problem}`;
        break;
      case "closed":
        item.text = "$(debug-disconnect) Bascule";
        item.tooltip = "Not connected; no agent can act in this window. Click to connect";
    }
  }

  private drawConnected(hub: string): void {
    const { item } = this;
    if (!vscode.workspace.isTrusted) {
      item.text = "$(shield) Bascule: restricted";
      item.tooltip = `Connected to ${hub}, but agents cannot act: this workspace is not trusted. Click to manage trust`;
      item.command = "workbench.trust.manage";
      return;
    }
    item.text = this.busy ? `$(sync~spin) Bascule: ${this.busy}` : "$(plug) Bascule";
    item.tooltip = `Agents can act in this window through ${hub}`;
  }

  private drawQuestions(): void {
    const { item, asking } = this;
    item.text = `$(question) Bascule: ${asking} ${asking === 1 ? "question" : "questions"}`;
    item.tooltip =
      "An agent or script is waiting for your consent. Click to see what it wants to do";
    item.command = CommandId.showQuestions;
    item.backgroundColor = color("warning");
  }
}

function color(kind: "error" | "warning" | undefined): vscode.ThemeColor | undefined {
  return kind && new vscode.ThemeColor(`statusBarItem.${kind}Background`);
}
