/** Changes to files through the editor's buffers, so that they are seen and can be undone. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { Failure, messageOf } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import type { Log } from "../common/log";
import { unixLines } from "./lines";
import { asFailure, type Place } from "./places";
import { decode, fitsBuffer, TextFormat, type Text } from "./textfile";

/** Bytes past which a file is not loaded into the editor only to be changed. */
const BUFFER_LIMIT = 20 << 20;
/** Times that saving is tried. */
const SAVES = 3;
/** Milliseconds a clean document may take to show what the disk holds. */
const FOLLOW_MS = 2000;

export interface Change {
  shown: string;
  uri: vscode.Uri;
  before: string;
  after: string;
  /** Where the new text stands, when the editor knows. */
  range?: vscode.Range;
}

export class Documents {
  private readonly locks = new KeyedLocks();

  constructor(
    private readonly onChanged: (change: Change) => void,
    private readonly log: Log,
  ) {}

  /** Nobody else changes the file meanwhile, as far as we do the changing. */
  turn<T>(place: Place, work: () => Promise<T>): Promise<T> {
    return this.locks.hold(place.real, work);
  }

  /** What the user has typed and not saved, or nothing. */
  unsaved(real: string): string | undefined {
    const document = find(real);
    return document?.isDirty ? document.getText() : undefined;
  }

  /** Fails with `edit.conflict` when the user has changed the file and not saved it. */
  ensureSaved(place: Place): void {
    if (find(place.real)?.isDirty)
      throw new Failure(
        "edit.conflict",
        `${place.shown} has changes in the editor that the user has not saved; nothing was written. ` +
          "`read` shows them. Ask the user to save or discard them first",
      );
  }

  /** What the file holds on disk; nothing when it is not there. Bytes past `limit` are refused. */
  async load(place: Place): Promise<Buffer | undefined> {
    try {
      return await readFile(place.real);
    } catch (error) {
      const failure = asFailure(error, place.shown);
      if (failure.code === "path.not_found") return undefined;
      throw failure;
    }
  }

  /** Makes a file that was not there. */
  async create(place: Place, content: string): Promise<void> {
    try {
      await mkdir(path.dirname(place.real), { recursive: true });
      await writeFile(place.real, content, { flag: "wx" });
    } catch (error) {
      throw asFailure(error, place.shown);
    }
    this.tell(place, "", content);
  }

  /** Makes `content` the text of a file whose bytes are `data`: one undo step, saved. */
  async replace(place: Place, data: Buffer, content: string): Promise<void> {
    this.ensureSaved(place);
    const old = textOf(data, place.shown);
    const format = old ? writable(old.format, content, place.shown) : new TextFormat();
    const bytes = format.encode(content, place.shown);
    if (bytes.equals(data)) return;
    const after = decode(bytes, place.shown);
    const throughBuffer =
      old &&
      format === old.format &&
      data.length < BUFFER_LIMIT &&
      fitsBuffer(old) &&
      fitsBuffer(after);
    if (!throughBuffer || !(await this.edit(place, old, after))) {
      await writeFile(place.real, bytes).catch((error: unknown) => {
        throw asFailure(error, place.shown);
      });
      this.tell(place, old?.content ?? "", after.content);
    }
  }

  /** False when the editor cannot hold this file. */
  private async edit(place: Place, old: Text, after: Text): Promise<boolean> {
    const document = await this.open(place, old);
    if (!document) return false;
    await follow(document, old.content, place);
    this.ensureSaved(place);
    const [range, text] = smallest(document, withLineEndsOf(document, after.content));
    const edit = new vscode.WorkspaceEdit();
    edit.replace(document.uri, range, text);
    if (!(await vscode.workspace.applyEdit(edit)))
      throw conflict(place, "the editor did not take the change");
    if (!(await saved(document)))
      throw new Failure(
        "file.storage",
        `${place.shown} was changed in the editor but could not be saved`,
      );
    const end = document.positionAt(document.offsetAt(range.start) + text.length);
    this.tell(place, old.content, after.content, new vscode.Range(range.start, end));
    return true;
  }

  private async open(place: Place, old: Text): Promise<vscode.TextDocument | undefined> {
    const known = find(place.real);
    const encoding = old.format.editorEncoding;
    // One that was opened in another encoding shows other text; opening it again changes that.
    if (known && (known.encoding === encoding || shows(known, old.content))) return known;
    const uri = vscode.Uri.file(place.real);
    try {
      return encoding === "utf8" && !known
        ? await vscode.workspace.openTextDocument(uri)
        : await vscode.workspace.openTextDocument(uri, { encoding });
    } catch (error) {
      this.log.info(
        `${place.real} is changed on disk, the editor does not open it: ${messageOf(error)}`,
      );
      return undefined;
    }
  }

  private tell(place: Place, before: string, after: string, range?: vscode.Range): void {
    const uri = vscode.Uri.file(place.real);
    this.onChanged({ shown: place.shown, uri, before, after, ...(range ? { range } : {}) });
  }
}

/** The old text, or nothing when the file is not text and is simply written over. */
function textOf(data: Buffer, shown: string): Text | undefined {
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

function find(real: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find(
    (document) =>
      document.uri.scheme === "file" && document.uri.fsPath === real && !document.isClosed,
  );
}

/** Autosave may be first, and leave nothing to do; or be at it, and then our own is turned away. */
async function saved(document: vscode.TextDocument): Promise<boolean> {
  for (let tries = 0; tries < SAVES; tries++)
    if ((await document.save()) || !document.isDirty) return true;
  return false;
}

/** A clean document shows the disk a moment late; changing the older text would bring it back. */
async function follow(document: vscode.TextDocument, text: string, place: Place): Promise<void> {
  if (shows(document, text)) return;
  await new Promise<void>((resolve, reject) => {
    const done = (settle: () => void): void => {
      clearTimeout(timer);
      listening.dispose();
      settle();
    };
    const timer = setTimeout(() => {
      done(() => reject(conflict(place, "what the editor shows is not what the disk holds")));
    }, FOLLOW_MS);
    const listening = vscode.workspace.onDidChangeTextDocument((event) => {
      if (event.document === document && shows(document, text)) done(resolve);
    });
  });
}

function shows(document: vscode.TextDocument, text: string): boolean {
  return unixLines(document.getText()) === unixLines(text);
}

function conflict(place: Place, why: string): Failure {
  return new Failure("edit.conflict", `${place.shown}: ${why}; nothing was written`);
}

function withLineEndsOf(document: vscode.TextDocument, text: string): string {
  const unix = unixLines(text);
  return document.eol === vscode.EndOfLine.CRLF ? unix.replaceAll("\n", "\r\n") : unix;
}

/** The smallest range of the document that has to change, and its new text. */
function smallest(document: vscode.TextDocument, after: string): [vscode.Range, string] {
  const before = document.getText();
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  while (start > 0 && splits(before, start)) start -= 1;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end])
    end += 1;
  while (end > 0 && splits(before, before.length - end)) end -= 1;
  const range = new vscode.Range(
    document.positionAt(start),
    document.positionAt(before.length - end),
  );
  return [range, after.slice(start, after.length - end)];
}

/** Between CR and LF, or inside a character of two halves. */
function splits(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at);
  return (before === 0x0d && after === 0x0a) || (before >= 0xd800 && before < 0xdc00);
}
