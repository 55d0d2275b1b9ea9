/**
 * Files that are open in VS Code. When a checkpoint is restored, these files are changed in the
 * editor, so that Ctrl+Z works.
 */
import { isUtf8 } from "node:buffer";
import { realpathSync } from "node:fs";
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";
import { waitUntilShown, type Documents } from "../actions/documents";
import { saveDocument } from "../save_document";
import { unsavedFiles } from "../actions/unsaved_changes";
import type { EditorFiles, WriteResult } from "./checkpoint_worker";

/** Milliseconds to wait until an open document shows the file on disk. */
const FOLLOW_MS = 5000;
const UNSAVED: WriteResult = { refused: "it has unsaved changes in the editor" };

export class OpenFiles implements EditorFiles {
  constructor(private readonly documents: Documents) {}

  openFiles(): { unsaved: string[]; saved: string[] } {
    return { unsaved: unsavedFiles("/"), saved: openDocuments().map(({ uri }) => uri.fsPath) };
  }

  /** Writes while no action of an agent changes the file. */
  write(path: string, content: Buffer): Promise<WriteResult> {
    return this.documents.withLock({ real: path, displayPath: path }, () =>
      this.replace(path, content),
    );
  }

  private async replace(path: string, content: Buffer): Promise<WriteResult> {
    const document = openDocuments().find(({ uri }) => realPath(uri.fsPath) === path);
    const text = document && exactText(document, content);
    if (!document || text === undefined) return { written: false };
    if (isUnsaved(document)) return UNSAVED;
    // VS Code notices changes on disk only after a while. So wait until the editor shows the text on
    // disk; an edit before that could have no effect.
    if (!(await waitUntilShown(document, (await readFile(path)).toString(), FOLLOW_MS)))
      return isUnsaved(document) ? UNSAVED : { written: false };
    const edit = new vscode.WorkspaceEdit();
    const whole = new vscode.Range(0, 0, document.lineCount, 0);
    edit.set(document.uri, [
      vscode.TextEdit.replace(document.validateRange(whole), text),
      vscode.TextEdit.setEndOfLine(
        text.includes("\r\n") ? vscode.EndOfLine.CRLF : vscode.EndOfLine.LF,
      ),
    ]);
    if (!(await vscode.workspace.applyEdit(edit)))
      return { refused: "VS Code did not change it in the editor" };
    if (!(await saveDocument(document)) && isUnsaved(document))
      return { refused: "VS Code could not save it; the editor has the restored text" };
    return { written: true };
  }
}

/**
 * The text, if saving it writes exactly these bytes: VS Code changes mixed line ends, and keeps the
 * encoding of the document.
 */
function exactText({ encoding }: vscode.TextDocument, content: Buffer): string | undefined {
  if (encoding !== "utf8" || !isUtf8(content)) return undefined;
  const text = content.toString();
  const ends = new Set(text.match(/\r\n|\r|\n|[\u2028\u2029]/g));
  const isMixed = ends.size > 1 || ends.has("\r") || ends.has("\u2028") || ends.has("\u2029");
  return isMixed || text.startsWith("\ufeff") || text.includes("\0") ? undefined : text;
}

/** Text documents of files. Not notebooks: VS Code reads them again when their file changes. */
function openDocuments(): vscode.TextDocument[] {
  return vscode.workspace.textDocuments.filter(
    ({ uri, isClosed }) => uri.scheme === "file" && !isClosed,
  );
}

function isUnsaved({ isDirty }: vscode.TextDocument): boolean {
  return isDirty;
}

/** The folder may be open under the name of a link; the worker knows its real path. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file; // removed
  }
}
