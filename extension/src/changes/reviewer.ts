/** Keeps and undoes changes of agents for the user. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { saveDocument } from "../save_document";
import { Failure } from "../common/failure";
import {
  areSame,
  findShown,
  isDifference,
  linesOfText,
  undoEdit,
  type Hunk,
  type Lines,
} from "../review/hunks";
import type { ReviewedFile } from "../review/reviewed_file";
import { describeHunk, type TakenBack } from "../review/taken_back";
import type { LensTarget } from "./hunk_lenses";
import { shownDocument, type PendingChanges } from "./pending_changes";

/**
 * Milliseconds after a change in which the peek view may show another change than the user saw: the
 * view identifies changes by their number in the list.
 */
const PEEK_MS = 1000;

/** A change as VS Code passes it; lines count from 1. An end of 0 means no lines, after `start`. */
export interface PeekedChange {
  originalStartLineNumber: number;
  originalEndLineNumber: number;
  modifiedStartLineNumber: number;
  modifiedEndLineNumber: number;
}

/** Runs `work` while no action of an agent changes the file. */
export type FileTurn = <T>(file: string, work: () => Promise<T>) => Promise<T>;

export class Reviewer {
  constructor(
    private readonly changes: PendingChanges,
    private readonly takenBack: TakenBack,
    private readonly turn: FileTurn,
  ) {}

  /** The change that was shown above its lines. Fails if its text has changed. */
  ofLens({ path, shown }: LensTarget): { file: ReviewedFile; hunk: Hunk } {
    const file = this.current(path);
    const hunk = findShown(file.base, file.text, shown);
    if (!hunk) throw stale(path);
    return { file, hunk };
  }

  /** The change that the peek view showed. Fails if its line numbers are out of date. */
  ofPeek(
    uri: vscode.Uri,
    changes: readonly PeekedChange[],
    index: number,
  ): { file: ReviewedFile; hunk: Hunk } {
    const file = this.current(uri.fsPath);
    const hunks = changes.map(hunkOf);
    const hunk = hunks[index];
    if (!hunk || !isDifference(file.base, file.text, hunks)) throw stale(uri.fsPath);
    if (this.changes.sinceAgent(uri.fsPath) < PEEK_MS) throw stale(uri.fsPath);
    return { file, hunk };
  }

  keep(file: ReviewedFile, hunk: Hunk): void {
    file.keep(hunk);
    this.changes.reviewed(file);
  }

  keepFile(file: ReviewedFile): void {
    file.keepAll();
    this.changes.reviewed(file);
  }

  async undo(file: ReviewedFile, hunk: Hunk): Promise<void> {
    const isAll = file.hunks.length === 1;
    const { base, text } = file;
    const isCurrent = (): boolean => areSame(file.text, text) && areSame(file.base, base);
    if (file.isCreated && isAll) return this.undoFile(file, isCurrent);
    await this.turn(file.path, async () => {
      if (!isCurrent()) throw stale(file.path);
      const edit = undoEdit(file.base, file.text, hunk);
      const range = new vscode.Range(
        edit.from.line,
        edit.from.character,
        edit.to.line,
        edit.to.character,
      );
      const note = describeHunk(nameOf(file.path), hunk);
      await this.change(file, () => file.undo(hunk), range, edit.text);
      this.takenBack.add(file.agents, note);
    });
  }

  /**
   * Waits for running actions on the file. Then fails, and does nothing, if `isCurrent` is false.
   */
  async undoFile(file: ReviewedFile, isCurrent: () => boolean = () => true): Promise<void> {
    await this.turn(file.path, async () => {
      if (!isCurrent()) throw stale(file.path);
      const [agents, name] = [[...file.agents], nameOf(file.path)];
      if (file.removed) {
        await this.restore(file);
        this.takenBack.add(agents, `the removal of ${name}`);
      } else if (file.isCreated && file.isAgents(file.text) && !shownDocument(file.path)?.isDirty) {
        await this.remove(file);
        this.takenBack.add(agents, `the new file ${name}`);
      } else {
        const whole = new vscode.Range(0, 0, file.text.length, 0);
        await this.change(file, () => file.undoAll(), whole, file.base.join("\n"));
        file.isCreated = false; // the user has written in it
        this.changes.reviewed(file);
        this.takenBack.add(agents, `all changes of ${name}`);
      }
    });
  }

  /** Fails if the editor does not show the text that the changes were computed with. */
  current(path: string): ReviewedFile {
    const file = this.changes.find(path);
    const document = shownDocument(path);
    if (!file || (document && !shows(document, file.text))) throw stale(path);
    return file;
  }

  /** One step for undo in the editor. A document without unsaved changes is saved again. */
  private async change(
    file: ReviewedFile,
    update: () => void,
    range: vscode.Range,
    text: string,
  ): Promise<void> {
    const uri = vscode.Uri.file(file.path);
    const document = await vscode.workspace.openTextDocument(uri);
    if (!shows(document, file.text)) throw stale(file.path);
    const { isDirty } = document;
    const before = file.text;
    update(); // before the edit: the document's event arrives while the edit is made
    const undone = file.text;
    const edits = [vscode.TextEdit.replace(document.validateRange(range), text)];
    const { CRLF, LF } = vscode.EndOfLine;
    const old = file.lineEnd === "\r\n" ? CRLF : LF;
    // VS Code gives the document the line ends of the text. A document of one line had none.
    if (file.lineEnd && old !== document.eol && areSame(file.text, file.base))
      edits.push(vscode.TextEdit.setEndOfLine(old));
    const edit = new vscode.WorkspaceEdit();
    edit.set(uri, edits);
    if (!(await vscode.workspace.applyEdit(edit))) {
      if (file.text === undone) file.undoFailed(before); // else the document's event set the text
      this.changes.reviewed(file);
      throw stale(file.path);
    }
    this.changes.reviewed(file);
    if (!isDirty && !(await saveDocument(document)) && document.isDirty)
      throw new Failure(
        "edit.conflict",
        `${nameOf(file.path)} was changed in the editor, but could not be saved`,
      );
  }

  private async restore(file: ReviewedFile): Promise<void> {
    const { bytes, mode } = file.removed ?? { bytes: Buffer.alloc(0), mode: 0o644 };
    await mkdir(path.dirname(file.path), { recursive: true });
    try {
      await writeFile(file.path, bytes, { flag: "wx", mode: mode & 0o777 });
    } catch (error) {
      throw new Failure(
        "path.exists",
        `${nameOf(file.path)} cannot be restored: ${(error as Error).message}`,
      );
    }
    await chmod(file.path, mode & 0o7777); // without the umask
    file.removed = undefined;
    this.changes.reviewed(file);
  }

  private async remove(file: ReviewedFile): Promise<void> {
    const edit = new vscode.WorkspaceEdit();
    edit.deleteFile(vscode.Uri.file(file.path), { ignoreIfNotExists: true });
    if (!(await vscode.workspace.applyEdit(edit)))
      throw new Failure("edit.conflict", `${nameOf(file.path)} could not be deleted`);
    this.changes.forget(file);
  }
}

export function nameOf(path: string): string {
  return vscode.workspace.asRelativePath(path);
}

function shows(document: vscode.TextDocument, text: Lines): boolean {
  return areSame(linesOfText(document.getText()), text);
}

function stale(path: string): Failure {
  return new Failure(
    "edit.conflict",
    `${nameOf(path)} has changed since this was shown. Nothing was done; look at the change again`,
  );
}

function hunkOf(change: PeekedChange): Hunk {
  const [baseStart, baseEnd] = rangeOf(
    change.originalStartLineNumber,
    change.originalEndLineNumber,
  );
  const [start, end] = rangeOf(change.modifiedStartLineNumber, change.modifiedEndLineNumber);
  return { baseStart, baseEnd, start, end };
}

function rangeOf(first: number, last: number): [number, number] {
  return last === 0 ? [first, first] : [first - 1, last];
}
