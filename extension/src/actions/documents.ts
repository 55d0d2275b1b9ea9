/**
 * Writes files that may be open in the editor.
 *
 * A change is written to disk and VS Code reloads the file. Saving through the editor takes a
 * hundred times as long, and a document may show a formatter's change only seconds later. The
 * user's unsaved changes are never overwritten.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import { changedRange } from "./edits";
import { unixLines } from "./lines";
import { asFailure, withPathErrors, type ResolvedPath } from "./paths";
import { replaceFile } from "../common/atomic_write";
import { decode, TextFormat, type DecodedText } from "./text_encoding";
import { unsavedFiles, unsavedText } from "./unsaved_changes";

/** Milliseconds to wait until an open document shows the file on disk. */
const FOLLOW_MS = 5000;
/** Maximum number of files in `recentlyWritten`. */
const MAX_RECENTLY_WRITTEN = 50;
/** Maximum attempts at a change while other programs keep changing the file. */
const MAX_TRIES = 5;

export interface FileChange {
  displayPath: string;
  uri: vscode.Uri;
  before: string;
  after: string;
  /** What the file was before the change. `before` is empty unless it was text. */
  was: "text" | "binary" | "nothing";
  /** Lines of the new text, counted from 0; `end` is exclusive. */
  lines?: { first: number; end: number };
}

/** Thrown if the file was changed since it was read. */
class Outdated extends Error {}

export class Documents {
  private readonly locks = new KeyedLocks();
  /** Open documents that do not show the written text yet, by path. */
  private readonly following = new Map<string, Promise<void>>();
  private readonly written = new Set<string>();

  constructor(private readonly onChanged: (change: FileChange) => void) {}

  /** The files that actions wrote last, the newest at the end. */
  get recentlyWritten(): string[] {
    return [...this.written];
  }

  /** Runs `work` while no other action changes the file. */
  withLock<T>(target: ResolvedPath, work: () => Promise<T>): Promise<T> {
    return this.locks.hold(target.real, work);
  }

  /**
   * Runs `work`, which reads the file and calls `replace`. Runs `work` again if a program changed
   * the file in between, so that an edit always applies to the current content.
   */
  async retryIfChanged<T>(target: ResolvedPath, work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Outdated)) throw error;
        if (tries === MAX_TRIES)
          throw new Failure(
            "edit.conflict",
            `${target.displayPath} is changed by another program repeatedly; nothing was written`,
          );
      }
    }
  }

  /** Unsaved text of a file; undefined if the file has no unsaved changes. */
  unsaved(real: string): Promise<string | undefined> {
    return unsavedText(real);
  }

  /** Fails with `edit.conflict` when the user has changed the file and not saved it. */
  ensureSaved(target: ResolvedPath): void {
    if (unsavedFiles(target.real).length)
      throw new Failure(
        "edit.conflict",
        `${target.displayPath} has changes in the editor that the user has not saved; nothing was written. ` +
          "`read` shows them. Ask the user to save or discard them first",
      );
  }

  /** Fails with `edit.conflict` if a file in this directory has unsaved changes. */
  ensureSavedBelow(target: ResolvedPath): void {
    const files = unsavedFiles(target.real);
    if (files.length)
      throw new Failure(
        "edit.conflict",
        `${files.join(", ")} has changes in the editor that the user has not saved; nothing was ` +
          "removed. Ask the user to save or discard them first",
      );
  }

  /** The bytes on disk; undefined if the file does not exist. */
  async load(target: ResolvedPath): Promise<Buffer | undefined> {
    try {
      return await readFile(target.real);
    } catch (error) {
      const failure = asFailure(error, target.displayPath);
      if (failure.code === "path.not_found") return undefined;
      throw failure;
    }
  }

  /** Creates a new file. Fails if it exists. */
  async create(target: ResolvedPath, content: string): Promise<void> {
    await withPathErrors(target.displayPath, async () => {
      await mkdir(path.dirname(target.real), { recursive: true });
      await writeFile(target.real, content, { flag: "wx" });
    });
    this.notifyChange(target, "nothing", "", content);
  }

  /**
   * Writes `content` to the file and returns the new bytes. Fails with `Outdated` if the file no
   * longer has the bytes `data`.
   */
  async replace(target: ResolvedPath, data: Buffer, content: string): Promise<Buffer> {
    const old = textOf(data, target.displayPath);
    const format = old ? writableFormat(old.format, content, target.displayPath) : new TextFormat();
    const bytes = format.encode(content, target.displayPath);
    if (bytes.equals(data)) return bytes;
    if (!(await this.load(target))?.equals(data)) throw new Outdated();
    this.ensureSaved(target);
    await withPathErrors(target.displayPath, () => replaceFile(target.real, bytes));
    this.notifyChange(target, old ? "text" : "binary", old?.content ?? "", content);
    return bytes;
  }

  /** Waits until the editor shows all written text, at most `FOLLOW_MS` per file. */
  async settled(): Promise<void> {
    await Promise.all(this.following.values());
  }

  /** Reports what an action changed, and waits in the background until the editor shows it. */
  notifyChange(target: ResolvedPath, was: FileChange["was"], before: string, after: string): void {
    const uri = vscode.Uri.file(target.real);
    this.written.delete(target.real); // so that `add` moves it to the end
    this.written.add(target.real);
    const [oldest] = this.written;
    if (this.written.size > MAX_RECENTLY_WRITTEN && oldest !== undefined)
      this.written.delete(oldest);
    this.follow(target.real, after);
    const lines = before ? changedRange(unixLines(before), unixLines(after)) : undefined;
    this.onChanged({
      displayPath: target.displayPath,
      uri,
      was,
      before,
      after,
      ...(lines ? { lines } : {}),
    });
  }

  private follow(real: string, text: string): void {
    const document = vscode.workspace.textDocuments.find(
      ({ uri, isClosed }) => uri.scheme === "file" && uri.fsPath === real && !isClosed,
    );
    if (!document) return;
    const followed = waitUntilShown(document, text, FOLLOW_MS).then(() => {
      if (this.following.get(real) === followed) this.following.delete(real);
    });
    this.following.set(real, followed);
  }
}

/** Waits until the document shows the text. False after the timeout. */
export async function waitUntilShown(
  document: vscode.TextDocument,
  text: string,
  timeoutMs: number,
): Promise<boolean> {
  const wanted = unixLines(text);
  const showsText = (): boolean => unixLines(document.getText()) === wanted;
  if (showsText()) return true;
  return new Promise<boolean>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      listening.dispose();
      resolve(showsText());
    };
    const timer = setTimeout(done, timeoutMs);
    const listening = vscode.workspace.onDidChangeTextDocument((event) => {
      if (event.document === document && showsText()) done();
    });
  });
}

/** The old text; undefined for a binary file, which may be overwritten. */
function textOf(data: Buffer, displayPath: string): DecodedText | undefined {
  try {
    return decode(data, displayPath);
  } catch {
    return undefined;
  }
}

/** The file's format if its encoding can represent the new text; otherwise UTF-8. */
function writableFormat(format: TextFormat, content: string, displayPath: string): TextFormat {
  try {
    format.encode(content, displayPath);
    return format;
  } catch {
    return new TextFormat("utf-8", undefined, format.crlf);
  }
}
