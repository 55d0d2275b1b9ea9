/** The commands with which the user reviews changes of agents. */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { CommandId } from "../manifest";
import { hunkAtLine, lineOf, type Hunk } from "../review/hunks";
import type { ReviewedFile } from "../review/reviewed_file";
import type { LensTarget } from "./hunk_lenses";
import type { PendingChanges } from "./pending_changes";
import { nameOf, type PeekedChange, type Reviewer } from "./reviewer";
import { baseUri, type AgentGroup, type ChangedFile } from "./source_controls";

type HunkTarget = { file: ReviewedFile; hunk: Hunk };
type HunkArguments =
  [target: LensTarget] | [uri: vscode.Uri, changes: readonly PeekedChange[], index: number];

export function registerReviewCommands(
  changes: PendingChanges,
  reviewer: Reviewer,
): vscode.Disposable {
  const targetOf = (given: HunkArguments): HunkTarget =>
    given.length === 1 ? reviewer.ofLens(given[0]) : reviewer.ofPeek(...given);
  const filesOf = (given: unknown[]): ReviewedFile[] => {
    const paths = given.flatMap(pathsOf);
    const active = vscode.window.activeTextEditor?.document.uri;
    const wanted = new Set(given.length ? paths : active ? [active.fsPath] : []);
    return changes.pending.filter(({ path }) => wanted.has(path));
  };
  const all = (group?: unknown): ReviewedFile[] =>
    isGroup(group) ? filesOf([group]) : changes.pending;

  const commands: Record<string, (...given: never[]) => unknown> = {
    [CommandId.keepChange]: (...given: HunkArguments) => {
      const { file, hunk } = targetOf(given);
      reviewer.keep(file, hunk);
    },
    [CommandId.undoChange]: (...given: HunkArguments) => {
      const { file, hunk } = targetOf(given);
      return reviewer.undo(file, hunk);
    },
    [CommandId.keepAtCursor]: () => {
      const { file, hunk } = atCursor(changes);
      reviewer.keep(file, hunk);
    },
    [CommandId.undoAtCursor]: () => {
      const { file, hunk } = atCursor(changes);
      return reviewer.undo(file, hunk);
    },
    [CommandId.nextChange]: () => goTo(changes, 1),
    [CommandId.previousChange]: () => goTo(changes, -1),
    [CommandId.keepFile]: (...given: unknown[]) =>
      filesOf(given).forEach((file) => reviewer.keepFile(file)),
    [CommandId.undoFile]: async (...given: unknown[]) => {
      for (const file of filesOf(given)) await reviewer.undoFile(file);
    },
    [CommandId.keepAll]: (group?: unknown) => all(group).forEach((file) => reviewer.keepFile(file)),
    [CommandId.undoAll]: async (group?: unknown) => {
      const files = all(group);
      const wanted = "Undo";
      const question = `Undo all changes of agents in ${files.length} ${files.length === 1 ? "file" : "files"}?`;
      const options = { modal: true, detail: files.map(({ path }) => nameOf(path)).join("\n") };
      if (!files.length) return;
      if ((await vscode.window.showWarningMessage(question, options, wanted)) !== wanted) return;
      for (const file of files) await reviewer.undoFile(file);
    },
    [CommandId.showChanges]: (group?: unknown) => showChanges(all(group)),
    [CommandId.showFileChanges]: (path: string) => showFile(changes.find(path)),
  };
  return vscode.Disposable.from(
    ...Object.entries(commands).map(([id, run]) =>
      vscode.commands.registerCommand(id, (...given: never[]) => showFailure(run, given)),
    ),
  );
}

/** Shows a failure as a message. Not thrown, so that the peek view closes and opens again. */
async function showFailure(run: (...given: never[]) => unknown, given: never[]): Promise<void> {
  try {
    await run(...given);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    void vscode.window.showWarningMessage(`Bascule: ${error.message}.`);
  }
}

function atCursor(changes: PendingChanges): HunkTarget {
  const editor = vscode.window.activeTextEditor;
  const file = editor && changes.find(editor.document.uri.fsPath);
  const hunk = file && hunkAtLine(file.hunks, file.text, editor.selection.active.line);
  if (!hunk) throw new Failure("path.not_found", "There is no change of an agent at the cursor");
  return { file, hunk };
}

/** Moves the cursor to the next change after it, in this file or another one. */
async function goTo(changes: PendingChanges, step: 1 | -1): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const here = editor?.document.uri.fsPath ?? "";
  const line = editor?.selection.active.line ?? 0;
  const places = changes.pending
    .filter((file) => !file.removed)
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .flatMap((file) => file.hunks.map((hunk) => ({ file, line: lineOf(hunk, file.text) })));
  const isAfter = (place: { file: ReviewedFile; line: number }): boolean =>
    place.file.path === here ? place.line > line : place.file.path > here;
  const isBefore = (place: { file: ReviewedFile; line: number }): boolean =>
    place.file.path === here ? place.line < line : place.file.path < here;
  const found =
    step > 0 ? (places.find(isAfter) ?? places[0]) : (places.findLast(isBefore) ?? places.at(-1));
  if (!found) throw new Failure("path.not_found", "No change of an agent waits for a review");
  const at = new vscode.Position(found.line, 0);
  const document = await vscode.workspace.openTextDocument(vscode.Uri.file(found.file.path));
  await vscode.window.showTextDocument(document, { selection: new vscode.Range(at, at) });
}

async function showChanges(files: readonly ReviewedFile[]): Promise<void> {
  if (!files.length)
    throw new Failure("path.not_found", "No change of an agent waits for a review");
  const resources = files.map(({ path, isCreated, removed }) => {
    const uri = vscode.Uri.file(path);
    return [uri, isCreated ? undefined : baseUri(path), removed ? undefined : uri];
  });
  await vscode.commands.executeCommand("vscode.changes", "Agent changes", resources);
}

async function showFile(file: ReviewedFile | undefined): Promise<void> {
  if (!file) return;
  const [uri, base] = [vscode.Uri.file(file.path), baseUri(file.path)];
  if (file.removed) await vscode.commands.executeCommand("vscode.open", base);
  else
    await vscode.commands.executeCommand(
      "vscode.diff",
      base,
      uri,
      `${nameOf(file.path)} (agent changes)`,
    );
}

function pathsOf(given: unknown): string[] {
  if (isGroup(given)) return given.resourceStates.flatMap(pathsOf);
  if (given instanceof vscode.Uri) return [given.fsPath];
  const { path } = (given ?? {}) as Partial<ChangedFile>;
  return typeof path === "string" ? [path] : [];
}

function isGroup(given: unknown): given is AgentGroup {
  return Array.isArray((given as Partial<AgentGroup> | undefined)?.resourceStates);
}
