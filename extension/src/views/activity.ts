/** The tree view "Activity": what agents did in this window, newest first. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { summary } from "../actions/consent";
import type { FileChange } from "../actions/documents";
import type { VirtualDocuments } from "../actions/virtual_documents";
import type { AgentAction } from "../hub/messages";
import type { SentObservation } from "../protocol";
import { CommandId, ViewId } from "../manifest";

const MAX_ENTRIES = 500;

interface ActivityEntry {
  action: AgentAction;
  began: number;
  ended?: number;
  outcome?: string;
  failed: boolean;
  file?: { uri: vscode.Uri; before: vscode.Uri };
}

export class ActivityView implements vscode.TreeDataProvider<ActivityEntry>, Disposable {
  private readonly changing = new vscode.EventEmitter<undefined>();
  private readonly view: vscode.TreeView<ActivityEntry>;
  private entries: ActivityEntry[] = [];
  private redraw: NodeJS.Timeout | undefined;

  readonly onDidChangeTreeData = this.changing.event;

  constructor(private readonly virtualDocuments: VirtualDocuments) {
    this.view = vscode.window.createTreeView(ViewId.activity, { treeDataProvider: this });
  }

  get running(): number {
    return this.entries.filter((entry) => entry.ended === undefined).length;
  }

  began(action: AgentAction): void {
    this.entries.unshift({ action, began: Date.now(), failed: false });
    this.entries.length = Math.min(this.entries.length, MAX_ENTRIES);
    this.changed();
  }

  ended(action: AgentAction, observation: SentObservation): void {
    const entry = this.entries.find((each) => each.action.id === action.id);
    if (!entry) return;
    entry.ended = Date.now();
    entry.failed = observation.observation === "error" || observation.success === false;
    entry.outcome = observation.content.slice(0, 2000);
    this.changed();
  }

  /** Links a changed file to the running action that changed it. */
  fileChanged(change: FileChange): void {
    const entry = this.entries.find(
      ({ action, ended }) => ended === undefined && ["write", "edit"].includes(action.action),
    );
    if (entry)
      entry.file = {
        uri: change.uri,
        before: this.virtualDocuments.add(change.uri.path, change.before),
      };
  }

  clear(): void {
    this.entries = this.entries.filter((entry) => entry.ended === undefined);
    this.changed();
  }

  async open(entry: ActivityEntry): Promise<void> {
    if (!entry.file) return;
    const title = `${vscode.workspace.asRelativePath(entry.file.uri)} (${entry.action.agent})`;
    await vscode.commands.executeCommand("vscode.diff", entry.file.before, entry.file.uri, title);
  }

  getChildren(parent?: ActivityEntry): ActivityEntry[] {
    return parent ? [] : this.entries;
  }

  getTreeItem(entry: ActivityEntry): vscode.TreeItem {
    const item = new vscode.TreeItem(summary(entry.action, vscode.workspace.asRelativePath));
    item.description = `${entry.action.agent} · ${timeText(entry)}`;
    item.tooltip = entry.outcome ?? "";
    item.iconPath = new vscode.ThemeIcon(
      entry.ended === undefined ? "sync~spin" : entry.failed ? "error" : "check",
    );
    if (entry.file)
      item.command = {
        command: CommandId.openEntry,
        title: "Show This Change",
        arguments: [entry],
      };
    return item;
  }

  dispose(): void {
    clearTimeout(this.redraw);
    this.view.dispose();
    this.changing.dispose();
  }

  /** Redraws at most five times a second. */
  private changed(): void {
    this.redraw ??= setTimeout(() => {
      this.redraw = undefined;
      this.changing.fire(undefined);
    }, 200);
  }
}

function timeText(entry: ActivityEntry): string {
  const at = new Date(entry.began).toLocaleTimeString();
  if (entry.ended === undefined) return at;
  const ms = entry.ended - entry.began;
  return `${at} · ${ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`}`;
}
