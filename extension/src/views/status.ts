/** The state of the connection, in the status bar. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import type { ConnectionState } from "../hub/connection";
import { Command } from "../manifest";

export class Status implements Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    "bascule.status",
    vscode.StatusBarAlignment.Right,
    100,
  );
  private busy = 0;
  private redraw: NodeJS.Timeout | undefined;
  private state: ConnectionState = { is: "closed" };

  constructor() {
    this.item.name = "Bascule";
    this.draw();
    this.item.show();
  }

  connection(state: ConnectionState): void {
    this.state = state;
    this.draw();
  }

  running(count: number): void {
    this.busy = count;
    // Not for every action: agents can be faster than the window draws.
    this.redraw ??= setTimeout(() => {
      this.redraw = undefined;
      this.draw();
    }, 200);
  }

  dispose(): void {
    clearTimeout(this.redraw);
    this.item.dispose();
  }

  private draw(): void {
    const { item, state } = this;
    item.command = state.is === "connected" ? Command.showActivity : Command.connect;
    item.backgroundColor =
      state.is === "refused" ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    switch (state.is) {
      case "connected":
        item.text = this.busy ? `$(sync~spin) Bascule: ${this.busy}` : "$(plug) Bascule";
        item.tooltip = `Agents can act in this window through ${state.hub}`;
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
}
