/** "Restore a Checkpoint…": the user chooses an action and files, sees the plan, and confirms. */
import * as vscode from "vscode";
import { labelText, withoutLinks } from "../consent/visible_text";
import type { ArgsOf, ExtrasOf } from "../protocol";
import type { Checkpoints } from "./checkpoints";

/** Maximum number of paths that a dialog lists. */
const MAX_LISTED = 15;
/** VS Code's icon for each kind of change. */
const CHANGE_ICONS: Readonly<Record<string, string>> = {
  added: "diff-added",
  modified: "diff-modified",
  deleted: "diff-removed",
};

type RestoreArgs = ArgsOf<"restore">;
type Restored = ExtrasOf<"restore">;

interface CheckpointItem {
  id: number;
  agent: string;
  title: string;
  began: number;
  files: number;
  notes: string[];
}

interface RestoreChoice extends vscode.QuickPickItem {
  args?: RestoreArgs;
}

export class RestoreCommand {
  constructor(private readonly checkpoints: Checkpoints) {}

  async run(): Promise<void> {
    const checkpoint = await this.chooseCheckpoint();
    const args = checkpoint && (await this.chooseFiles(checkpoint));
    if (!args || !(await this.confirm(args))) return;
    const { extras } = await this.checkpoints.ask("restore", args);
    await this.report(extras);
  }

  private async chooseCheckpoint(): Promise<CheckpointItem | undefined> {
    const { extras } = await this.checkpoints.ask("checkpoints", {});
    const all = ((extras.items ?? []) as unknown as CheckpointItem[]).toReversed();
    if (!all.length) {
      const limits = this.checkpoints.limitNotes.join("\n");
      void vscode.window.showInformationMessage(
        withoutLinks(
          `Bascule: there are no checkpoints yet, because no agent has changed files here. ${limits}`,
        ),
      );
      return undefined;
    }
    const items = all.map((each) => ({
      label: `${each.id}  ${labelText(each.title)}`,
      description: `${labelText(each.agent)} · ${filesText(each.files)} · ${timeOf(each.began)}`,
      ...(each.notes.length ? { detail: labelText(each.notes.join("; ")) } : {}),
      each,
    }));
    const options = {
      title: "Restore a checkpoint",
      matchOnDescription: true,
      matchOnDetail: true,
    };
    const placeHolder = "Choose the action whose changes you want to undo";
    return (await vscode.window.showQuickPick(items, { ...options, placeHolder }))?.each;
  }

  private async chooseFiles({ id }: CheckpointItem): Promise<RestoreArgs | undefined> {
    const { extras } = await this.checkpoints.ask("checkpoint", { checkpoint: id });
    const changes = (extras.changes ?? []) as unknown as { path: string; change: string }[];
    const items: RestoreChoice[] = [
      {
        label: `$(discard) This action: ${filesText(changes.length)}`,
        args: { checkpoint: id },
      },
      {
        label: "$(history) Everything since this action",
        args: { checkpoint: id, since: true },
      },
      { label: "Only one file", kind: vscode.QuickPickItemKind.Separator },
      ...changes.map(({ path, change }) => ({
        label: `$(${CHANGE_ICONS[change] ?? "file"}) ${labelText(path)}`,
        description: change,
        args: { checkpoint: id, paths: [path] },
      })),
    ];
    const title = `Restore checkpoint ${id}`;
    const placeHolder = "Choose what to restore; you see the plan first";
    return (await vscode.window.showQuickPick(items, { title, placeHolder }))?.args;
  }

  /** Asks in a modal dialog, which no command of an agent can answer. */
  private async confirm(args: RestoreArgs): Promise<boolean> {
    const { extras } = await this.checkpoints.ask("restore", { ...args, dry_run: true });
    const { restored = [], removed = [], conflicts = [] } = extras;
    const detail = [
      ...pathList("Gets its earlier content", restored),
      ...pathList("Is removed, because an agent created it", removed),
      ...pathList("Is left alone", conflicts.map(reasonOf)),
    ].join("\n");
    const total = restored.length + removed.length;
    if (!total) {
      const nothing = "Bascule: there is nothing to restore.";
      void vscode.window.showWarningMessage(nothing, { modal: true, detail });
      return false;
    }
    const button = "Restore";
    const question = `Restore ${filesText(total)}?`;
    const options = { modal: true, detail };
    return (await vscode.window.showWarningMessage(question, options, button)) === button;
  }

  private async report({ checkpoint, restored, removed, conflicts }: Restored): Promise<void> {
    const fileCount = (restored?.length ?? 0) + (removed?.length ?? 0);
    const conflictTexts = (conflicts ?? []).map(reasonOf);
    const text = `Bascule: restored ${filesText(fileCount)}.`;
    const rest = conflictTexts.length
      ? ` Left alone: ${conflictTexts.slice(0, MAX_LISTED).join("; ")}`
      : "";
    const show = conflictTexts.length
      ? vscode.window.showWarningMessage
      : vscode.window.showInformationMessage;
    const undo = "Undo";
    const buttons = typeof checkpoint === "number" ? [undo] : [];
    const answer = await show(withoutLinks(text + rest), ...buttons);
    if (answer !== undo || typeof checkpoint !== "number") return;
    const { extras } = await this.checkpoints.ask("restore", { checkpoint });
    await this.report(extras);
  }
}

function pathList(what: string, paths: readonly string[]): string[] {
  if (!paths.length) return [];
  const more = paths.length > MAX_LISTED ? [`  and ${paths.length - MAX_LISTED} more`] : [];
  return [`${what}:`, ...paths.slice(0, MAX_LISTED).map((path) => `  ${labelText(path)}`), ...more];
}

function reasonOf(conflict: object): string {
  const { path, reason } = conflict as { path: string; reason: string };
  return labelText(`${path}: ${reason}`);
}

function filesText(files: number): string {
  return `${files} ${files === 1 ? "file" : "files"}`;
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString();
}
