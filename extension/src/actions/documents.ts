/**
 * Changes to files that may be open in the editor.
 *
 * They are written to disk, and VS Code shows what the disk holds: saving through the editor takes
 * a hundred times as long, and a document may show what a formatter has just changed only seconds
 * later. What the user has changed and not saved is never written over.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import { changedRange } from "./edits";
import { unixLines } from "./lines";
import { asFailure, withPathErrors, type ResolvedPath } from "./paths";
import { replaceFile } from "./atomic_write";
import { decode, TextFormat, type DecodedText } from "./text_encoding";
import { unsavedFiles, unsavedText } from "./unsaved_changes";

/** Milliseconds an open document may take to show what the disk holds. */
const FOLLOW_MS = 5000;
/** Times a change is made anew because the file was changed while it was being made. */
const TRIES = 5;

export interface FileChange {
  shown: string;
  uri: vscode.Uri;
  before: string;
  after: string;
  /** Lines that hold the new text, from 0, the last one left out. */
  lines?: { first: number; end: number };
}

/** The file holds other bytes by now than those that were to be replaced. */
class Outdated extends Error {}

export class Documents {
  private readonly locks = new KeyedLocks();
  /** Open documents that do not show yet what was written. */
  private readonly following = new Map<string, Promise<void>>();

  constructor(private readonly onChanged: (change: FileChange) => void) {}

  /** Nobody else changes the file meanwhile, as far as we do the changing. */
  turn<T>(target: ResolvedPath, work: () => Promise<T>): Promise<T> {
    return this.locks.hold(target.real, work);
  }

  /**
   * `work` reads the file, decides and calls `replace`. It is done again if a program changed the
   * file in between: an edit is made on what the file holds, not on what it held.
   */
  async retrying<T>(target: ResolvedPath, work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Outdated)) throw error;
        if (tries === TRIES)
          throw new Failure(
            "edit.conflict",
            `${target.shown} is changed by a program again and again; nothing was written`,
          );
      }
    }
  }

  /** What the user has typed and not saved, or nothing. */
  unsaved(real: string): Promise<string | undefined> {
    return unsavedText(real);
  }

  /** Fails with `edit.conflict` when the user has changed the file and not saved it. */
  ensureSaved(target: ResolvedPath): void {
    if (unsavedFiles(target.real).length)
      throw new Failure(
        "edit.conflict",
        `${target.shown} has changes in the editor that the user has not saved; nothing was written. ` +
          "`read` shows them. Ask the user to save or discard them first",
      );
  }

  /** Fails with `edit.conflict` when a file below has changes that were not saved. */
  ensureSavedBelow(target: ResolvedPath): void {
    const files = unsavedFiles(target.real);
    if (files.length)
      throw new Failure(
        "edit.conflict",
        `${files.join(", ")} has changes in the editor that the user has not saved; nothing was ` +
          "removed. Ask the user to save or discard them first",
      );
  }

  /** What the file holds on disk; nothing when it is not there. */
  async load(target: ResolvedPath): Promise<Buffer | undefined> {
    try {
      return await readFile(target.real);
    } catch (error) {
      const failure = asFailure(error, target.shown);
      if (failure.code === "path.not_found") return undefined;
      throw failure;
    }
  }

  /** Makes a file that was not there. */
  async create(target: ResolvedPath, content: string): Promise<void> {
    await withPathErrors(target.shown, async () => {
      await mkdir(path.dirname(target.real), { recursive: true });
      await writeFile(target.real, content, { flag: "wx" });
    });
    this.tell(target, "", content);
  }

  /** Makes `content` the text of a file whose bytes are `data`; returns the new bytes. */
  async replace(target: ResolvedPath, data: Buffer, content: string): Promise<Buffer> {
    const old = textOf(data, target.shown);
    const format = old ? writable(old.format, content, target.shown) : new TextFormat();
    const bytes = format.encode(content, target.shown);
    if (bytes.equals(data)) return bytes;
    if (!(await this.load(target))?.equals(data)) throw new Outdated();
    this.ensureSaved(target);
    await withPathErrors(target.shown, () => replaceFile(target.real, bytes));
    this.tell(target, old?.content ?? "", content);
    return bytes;
  }

  /** Done once the editor shows everything that was written, or does not seem to follow. */
  async settled(): Promise<void> {
    await Promise.all(this.following.values());
  }

  private tell(target: ResolvedPath, before: string, after: string): void {
    const uri = vscode.Uri.file(target.real);
    this.follow(target.real, after);
    const lines = before ? changedRange(unixLines(before), unixLines(after)) : undefined;
    this.onChanged({ shown: target.shown, uri, before, after, ...(lines ? { lines } : {}) });
  }

  private follow(real: string, text: string): void {
    const document = vscode.workspace.textDocuments.find(
      ({ uri, isClosed }) => uri.scheme === "file" && uri.fsPath === real && !isClosed,
    );
    if (!document) return;
    const followed = shows(document, text, FOLLOW_MS).then(() => {
      if (this.following.get(real) === followed) this.following.delete(real);
    });
    this.following.set(real, followed);
  }
}

/** Whether the document shows the text, within some milliseconds. */
export async function shows(
  document: vscode.TextDocument,
  text: string,
  patienceMs: number,
): Promise<boolean> {
  const wanted = unixLines(text);
  const does = (): boolean => unixLines(document.getText()) === wanted;
  if (does()) return true;
  return new Promise<boolean>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      listening.dispose();
      resolve(does());
    };
    const timer = setTimeout(done, patienceMs);
    const listening = vscode.workspace.onDidChangeTextDocument((event) => {
      if (event.document === document && does()) done();
    });
  });
}

/** The old text, or nothing when the file is not text and is simply written over. */
function textOf(data: Buffer, shown: string): DecodedText | undefined {
  try {
    return decode(data, shown);
  } catch {
    return undefined;
  }
}

/** An encoding that cannot hold the new text need not be kept when nothing of the old text stays. */
function writable(format: TextFormat, content: string, shown: string): TextFormat {
  try {
    format.encode(content, shown);
    return format;
  } catch {
    return new TextFormat("utf-8", undefined, format.crlf);
  }
}
