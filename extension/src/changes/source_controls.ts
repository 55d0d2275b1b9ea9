/**
 * "Agent changes" in Source Control: one entry per workspace folder, with a group per agent. An
 * entry exists only while changes are pending. It is created last, so its marks precede git's.
 */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { BASE_SCHEME, CommandId } from "../manifest";
import type { ReviewedFile } from "../review/reviewed_file";
import type { PendingChanges } from "./pending_changes";

const LABEL = "Agent changes";
const ID = "bascule";

/** A file in Source Control. */
export interface ChangedFile extends vscode.SourceControlResourceState {
  path: string;
}

/** A group of Source Control: the files that an agent changed. */
export type AgentGroup = vscode.SourceControlResourceGroup;

interface Entry {
  control: vscode.SourceControl;
  groups: Map<string, AgentGroup>;
}

export class SourceControls implements Disposable {
  private readonly entries = new Map<string, Entry>();

  constructor(private readonly changes: PendingChanges) {}

  refresh(): void {
    const folders = new Map<string, ReviewedFile[]>();
    for (const file of this.changes.pending) {
      const folder = vscode.workspace.getWorkspaceFolder(vscode.Uri.file(file.path));
      const root = folder?.uri.toString() ?? "";
      folders.set(root, [...(folders.get(root) ?? []), file]);
    }
    for (const [root, entry] of this.entries)
      if (!folders.has(root)) {
        entry.control.dispose();
        this.entries.delete(root);
      }
    for (const [root, files] of folders) this.fill(this.entryOf(root), files);
  }

  dispose(): void {
    for (const { control } of this.entries.values()) control.dispose();
    this.entries.clear();
  }

  private entryOf(root: string): Entry {
    const known = this.entries.get(root);
    if (known) return known;
    const folder = root ? vscode.Uri.parse(root) : undefined;
    const control = vscode.scm.createSourceControl(ID, LABEL, folder);
    control.inputBox.visible = false;
    control.quickDiffProvider = {
      provideOriginalResource: (uri) =>
        uri.scheme === "file" && this.changes.find(uri.fsPath) ? baseUri(uri.fsPath) : undefined,
    };
    const entry = { control, groups: new Map<string, AgentGroup>() };
    this.entries.set(root, entry);
    return entry;
  }

  private fill({ control, groups }: Entry, files: readonly ReviewedFile[]): void {
    const agents = [...new Set(files.flatMap(({ agents }) => agents))].sort();
    for (const [agent, group] of groups)
      if (!agents.includes(agent)) {
        group.dispose();
        groups.delete(agent);
      }
    for (const agent of agents) {
      const group = groups.get(agent) ?? control.createResourceGroup(agent, agent);
      groups.set(agent, group);
      group.hideWhenEmpty = true;
      group.resourceStates = files
        .filter(({ agents }) => agents.includes(agent))
        .sort((a, b) => (a.path < b.path ? -1 : 1))
        .map(stateOf);
    }
    control.count = files.length;
  }
}

/** The document with the base of a file. */
export function baseUri(path: string): vscode.Uri {
  return vscode.Uri.file(path).with({ scheme: BASE_SCHEME });
}

function stateOf(file: ReviewedFile): ChangedFile {
  const count = file.hunks.length;
  const what = file.removed
    ? "deleted"
    : `${file.isCreated ? "created, " : ""}${count} ${count === 1 ? "change" : "changes"}`;
  return {
    path: file.path,
    resourceUri: vscode.Uri.file(file.path),
    decorations: {
      strikeThrough: file.removed !== undefined,
      tooltip: `${what} by ${file.agents.join(", ")}`,
    },
    command: { command: CommandId.showFileChanges, title: "Show Changes", arguments: [file.path] },
  };
}
