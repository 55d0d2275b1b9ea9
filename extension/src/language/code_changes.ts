/**
 * Applies a change that a language server computed, as an agent's change: in one step for undo,
 * saved, and reported to the review.
 */
import { readFile, stat } from "node:fs/promises";
import * as vscode from "vscode";
import { lineChanges, unifiedDiff } from "../actions/diff";
import type { Documents } from "../actions/documents";
import { splitLines, unixLines } from "../actions/lines";
import type { PathResolver, ResolvedPath } from "../actions/paths";
import { saveDocument } from "../save_document";
import { decode } from "../actions/text_encoding";
import { Failure } from "../common/failure";
import { isProtected } from "../consent/protected_paths";
import { withEdits } from "./text_edits";

/** A file before and after a change. */
export interface ChangedText {
  target: ResolvedPath;
  before: string;
  after: string;
}

interface PlannedFile extends ChangedText {
  uri: vscode.Uri;
  /** Whether the change creates the file. */
  isNew: boolean;
}

export class CodeChanges {
  constructor(
    private readonly resolver: PathResolver,
    private readonly documents: Documents,
  ) {}

  /**
   * Applies the change, or fails and changes nothing. `named` is the file that the action names,
   * about which the user was asked. `ensureWanted` is called last, and fails if it is too late.
   */
  async apply(
    edit: vscode.WorkspaceEdit,
    named: ResolvedPath,
    ensureWanted: () => void,
  ): Promise<ChangedText[]> {
    const targets = await this.targets(edit, named);
    return this.withLocks([...targets.values()], async () => {
      for (const target of targets.values()) this.documents.ensureSaved(target);
      const planned = await plan(edit, targets);
      ensureWanted();
      // Before the edit: otherwise the review would show the change in the editor as the user's.
      for (const file of planned) this.report(file, file.before, file.after);
      if (!(await vscode.workspace.applyEdit(edit))) {
        for (const file of planned) this.report(file, file.after, file.before);
        throw new Failure(
          "edit.conflict",
          "A file changed while the change was made; nothing was changed. Try again",
        );
      }
      return Promise.all(planned.map((file) => this.save(file)));
    });
  }

  /**
   * Runs a command that may change documents in the editor, and saves what it changed. Files that
   * the user has not saved stay unsaved.
   */
  async runAndSave(work: () => Promise<void>): Promise<ChangedText[]> {
    const unsaved = new Set(dirty().map(({ uri }) => uri.toString()));
    await work();
    const changed: ChangedText[] = [];
    for (const document of dirty()) {
      if (unsaved.has(document.uri.toString())) continue;
      const file = document.uri.fsPath;
      if (!(await this.isInside(file))) continue;
      const target = await this.resolver.find(file, "/");
      const after = document.getText();
      // The document was not saved since, so the file still has the earlier text.
      const before = decode(await readFile(target.real), target.displayPath).content;
      await save(document, target);
      this.documents.notifyChange(target, "text", before, after);
      changed.push({ target, before, after });
    }
    return changed;
  }

  private async isInside(file: string): Promise<boolean> {
    try {
      await this.resolver.find(file, "/");
      return true;
    } catch (error) {
      if (error instanceof Failure) return false;
      throw error;
    }
  }

  private async targets(
    edit: vscode.WorkspaceEdit,
    named: ResolvedPath,
  ): Promise<Map<string, ResolvedPath>> {
    const found = new Map<string, ResolvedPath>();
    for (const [uri] of edit.entries()) {
      if (uri.scheme !== "file")
        throw new Failure("path.invalid", `${uri.toString()} is not a file; nothing was changed`);
      const target = await this.resolver.find(uri.fsPath, "/");
      if (isProtected(target.real) && target.real !== named.real)
        throw new Failure(
          "consent.denied",
          `This would also change ${target.displayPath}, which programs run or trust; nothing was changed`,
        );
      found.set(uri.toString(), target);
    }
    return found;
  }

  /** Runs `work` while no other action changes any of the files. */
  private withLocks<T>(targets: readonly ResolvedPath[], work: () => Promise<T>): Promise<T> {
    // All actions lock files in the same order, so that no two actions wait for each other.
    const sorted = [...targets].sort((one, other) => (one.real < other.real ? -1 : 1));
    const nested = sorted.reduceRight<() => Promise<T>>(
      (inner, target) => () => this.documents.withLock(target, inner),
      work,
    );
    return nested();
  }

  private report({ target, isNew }: PlannedFile, before: string, after: string): void {
    this.documents.notifyChange(target, isNew ? "nothing" : "text", before, after);
  }

  private async save(file: PlannedFile): Promise<ChangedText> {
    const document = await vscode.workspace.openTextDocument(file.uri);
    await save(document, file.target);
    const after = document.getText();
    // A formatter may have changed it while it was saved.
    if (unixLines(after) !== unixLines(file.after))
      this.documents.notifyChange(file.target, "text", file.after, after);
    return { ...file, after };
  }
}

/** Line numbers of a changed file, from 1, of the text after the change. */
export function changedLines({ before, after }: ChangedText): number[] {
  const [old, fresh] = [before, after].map((text) => splitLines(unixLines(text))) as [
    string[],
    string[],
  ];
  return lineChanges(old, fresh).flatMap(([, , start, end]) =>
    start === end ? [start + 1] : Array.from({ length: end - start }, (_, n) => start + n + 1),
  );
}

export function diffOf({ target, before, after }: ChangedText): string {
  return unifiedDiff(unixLines(before), unixLines(after), target.displayPath);
}

async function plan(
  edit: vscode.WorkspaceEdit,
  targets: ReadonlyMap<string, ResolvedPath>,
): Promise<PlannedFile[]> {
  const planned: PlannedFile[] = [];
  for (const [uri, edits] of edit.entries()) {
    const target = targets.get(uri.toString());
    if (!target || !edits.length) continue;
    if (!(await exists(target.real))) {
      const after = edits.map(({ newText }) => newText).join("");
      planned.push({ uri, target, isNew: true, before: "", after });
      continue;
    }
    const document = await vscode.workspace.openTextDocument(uri);
    const before = document.getText();
    const after = withEdits(
      before,
      edits.map(({ range, newText }) => ({
        start: document.offsetAt(range.start),
        end: document.offsetAt(range.end),
        text: newText,
      })),
    );
    planned.push({ uri, target, isNew: false, before, after });
  }
  return planned;
}

async function save(document: vscode.TextDocument, { displayPath }: ResolvedPath): Promise<void> {
  if (!(await saveDocument(document)) && document.isDirty)
    throw new Failure(
      "file.storage",
      `${displayPath} was changed in the editor, but could not be saved. The user can undo the change there`,
    );
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

function dirty(): vscode.TextDocument[] {
  return vscode.workspace.textDocuments.filter(
    ({ isDirty, isClosed, uri }) => isDirty && !isClosed && uri.scheme === "file",
  );
}
