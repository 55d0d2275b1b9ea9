/**
 * Which changes of agents wait for a review: follows agents' edits, files on disk and documents.
 */
import * as vscode from "vscode";
import type { FileChange } from "../actions/documents";
import { decode } from "../actions/text_encoding";
import type { Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import type { AgentCommands } from "../review/agent_commands";
import { lineEndOf, linesOfText, type Lines } from "../review/hunks";
import { ReviewedFile } from "../review/reviewed_file";
import type { ReviewStore } from "../review/review_store";
import { MAX_FILE_BYTES, timeOf, type DiskChange, type WorkspaceTexts } from "./workspace_texts";

/** Milliseconds after typing before the base is stored. */
const STORE_MS = 200;
/** Maximum number of files without pending changes that are kept, for undo in the editor. */
const MAX_SETTLED = 200;

export interface PendingChangesParts {
  store: ReviewStore;
  commands: AgentCommands;
  texts: () => WorkspaceTexts;
  isOn: () => boolean;
  log: Log;
}

export class PendingChanges implements Disposable {
  private readonly files = new Map<string, ReviewedFile>();
  private readonly changing = new vscode.EventEmitter<ReviewedFile>();
  private readonly unstored = new Set<ReviewedFile>();
  private readonly agentTimes = new Map<string, number>();
  private readonly listening: vscode.Disposable;
  private storing: NodeJS.Timeout | undefined;

  /** Fires when the hunks of a file have changed. */
  readonly onDidChange = this.changing.event;

  constructor(private readonly parts: PendingChangesParts) {
    const { workspace } = vscode;
    this.listening = vscode.Disposable.from(
      workspace.onDidChangeTextDocument((event) => this.documentChanged(event)),
      workspace.onDidOpenTextDocument((document) => this.documentOpened(document)),
      workspace.onDidSaveTextDocument((document) => this.documentSaved(document)),
      workspace.onDidRenameFiles(({ files }) =>
        files.forEach(({ oldUri, newUri }) => this.renamed(oldUri.fsPath, newUri.fsPath)),
      ),
    );
  }

  /** Loads the changes that were pending before the window was reloaded. */
  restore(): void {
    const { files, broken } = this.parts.store.load();
    for (const name of broken) this.parts.log.warn(`pending changes in ${name} cannot be read`);
    for (const file of files) {
      this.files.set(file.path, file);
      const document = shownDocument(file.path);
      if (document) this.documentOpened(document);
      else this.readAgain(file);
    }
  }

  get pending(): ReviewedFile[] {
    return this.parts.isOn() ? [...this.files.values()].filter((file) => file.isPending) : [];
  }

  /** The file if it has pending changes. */
  find(path: string): ReviewedFile | undefined {
    const file = this.parts.isOn() ? this.files.get(path) : undefined;
    return file?.isPending ? file : undefined;
  }

  /** The text that is compared with the editor's. Without pending changes it is the same text. */
  baseOf(path: string): string {
    const file = this.files.get(path);
    if (file) return (file.removed ? file.text : file.base).join("\n");
    return shownDocument(path)?.getText() ?? "";
  }

  /** Milliseconds since an agent last changed the file. */
  sinceAgent(path: string): number {
    return Date.now() - (this.agentTimes.get(path) ?? 0);
  }

  /** An action of an agent changed a file. */
  agentWrote(agent: string, { uri, was, before, after }: FileChange): void {
    this.parts.texts().accept(uri.fsPath);
    if (!this.parts.isOn()) return;
    const known = this.files.get(uri.fsPath);
    if (was === "binary" || Math.max(before.length, after.length) > MAX_FILE_BYTES)
      return known && this.forget(known);
    this.agentChanged(agent, uri.fsPath, was === "text" ? before : undefined, linesOfText(after));
  }

  /** A program changed a file. */
  diskChanged({ path, before, after, time }: DiskChange): void {
    const agent = this.parts.isOn() ? this.parts.commands.agentAt(time) : undefined;
    if (!agent) return this.changedByOthers(path, after?.bytes);
    const old = before && textOf(before.bytes);
    const fresh = after && textOf(after.bytes);
    if (fresh !== undefined) return this.agentChanged(agent, path, old, linesOfText(fresh));
    const known = this.files.get(path);
    if (known?.isCreated) return this.forget(known);
    if (!before || old === undefined) return;
    const file = known ?? this.add(path, old);
    file.restart(linesOfText(old));
    file.wasRemoved(agent, before);
    this.changed(file);
  }

  /** The user kept or undid something. */
  reviewed(file: ReviewedFile): void {
    this.changed(file);
  }

  forget(file: ReviewedFile): void {
    file.keepAll();
    this.changed(file);
    this.files.delete(file.path);
  }

  dispose(): void {
    clearTimeout(this.storing);
    this.store();
    this.listening.dispose();
    this.changing.dispose();
  }

  /** `before` is undefined if the file did not exist. */
  private agentChanged(
    agent: string,
    path: string,
    before: string | undefined,
    after: Lines,
  ): void {
    this.agentTimes.set(path, Date.now());
    const document = shownDocument(path);
    const known = this.files.get(path);
    const file = known ?? this.add(path, before);
    const isBack = file.removed !== undefined;
    file.removed = undefined;
    if (document?.isDirty) {
      // The editor does not show the text on disk. Its unsaved text is the base.
      file.restart(linesOfText(document.getText()));
      file.wrote(agent, after);
      return this.changed(file);
    }
    if (before !== undefined && !isBack) {
      if (!file.isPending) file.lineEnd = lineEndOf(before);
      file.restart(linesOfText(before));
      if (!document) file.show(linesOfText(before), "person");
    }
    file.wrote(agent, after);
    file.show(after, "person"); // an open document follows soon
    this.changed(file);
  }

  /** `before` is undefined if the file did not exist. */
  private add(path: string, before: string | undefined): ReviewedFile {
    const file = new ReviewedFile(path, linesOfText(before ?? ""), before === undefined);
    file.lineEnd = lineEndOf(before ?? "");
    this.files.set(path, file);
    const settled = [...this.files.values()].filter((each) => !each.isPending && each !== file);
    for (const each of settled.slice(0, -MAX_SETTLED)) this.files.delete(each.path);
    return file;
  }

  private changedByOthers(path: string, bytes: Buffer | undefined): void {
    const file = this.files.get(path);
    if (!file) return;
    if (!bytes) return file.removed ? undefined : this.forget(file);
    const text = textOf(bytes);
    if (text === undefined) return this.forget(file);
    if (shownDocument(path)) return; // the event of the document says who changed it
    file.removed = undefined;
    file.show(linesOfText(text), "person");
    this.changed(file);
  }

  private documentChanged(event: vscode.TextDocumentChangeEvent): void {
    const { document, contentChanges, reason } = event;
    const path = document.uri.fsPath;
    if (document.uri.scheme !== "file" || !contentChanges.length) return;
    const file = this.files.get(path);
    const isLoaded = !document.isDirty && reason === undefined;
    if (isLoaded) this.parts.texts().check(path);
    if (!file) return;
    const text = linesOfText(document.getText());
    if (isLoaded && !file.isAgents(text)) {
      const agent = this.parts.isOn() ? this.parts.commands.agentAt(timeOf(path)) : undefined;
      if (agent) file.wrote(agent, text);
    }
    file.isDirty = document.isDirty;
    file.show(text, reason === undefined ? "person" : "history");
    this.changed(file, true);
  }

  private documentOpened(document: vscode.TextDocument): void {
    const file = document.uri.scheme === "file" && this.files.get(document.uri.fsPath);
    if (!file) return;
    file.isDirty = document.isDirty;
    file.show(linesOfText(document.getText()), "person");
    this.changed(file);
  }

  private documentSaved({ uri }: vscode.TextDocument): void {
    if (uri.scheme !== "file") return;
    this.parts.texts().accept(uri.fsPath);
    const file = this.files.get(uri.fsPath);
    if (!file) return;
    file.isDirty = false;
    this.changed(file);
  }

  private renamed(from: string, to: string): void {
    const moved = [...this.files.values()].filter(
      ({ path }) => path === from || path.startsWith(`${from}/`),
    );
    for (const file of moved) {
      this.files.delete(file.path);
      this.parts.store.remove(file.path);
      file.path = to + file.path.slice(from.length);
      this.files.set(file.path, file);
      this.changed(file);
    }
  }

  /** Takes the text on disk, unless the editor is about to restore unsaved text. */
  private readAgain(file: ReviewedFile): void {
    if (file.isDirty || file.removed) return;
    this.parts.texts().accept(file.path);
    const found = this.parts.texts().get(file.path);
    if (found) this.changedByOthers(file.path, found.bytes);
  }

  private changed(file: ReviewedFile, isTyped = false): void {
    this.unstored.add(file);
    if (!isTyped) this.store();
    else this.storing ??= setTimeout(() => this.store(), STORE_MS);
    this.changing.fire(file);
  }

  private store(): void {
    clearTimeout(this.storing);
    this.storing = undefined;
    const files = [...this.unstored];
    this.unstored.clear();
    try {
      for (const file of files)
        if (!file.isPending) this.parts.store.remove(file.path);
        else this.dropped(this.parts.store.save(file));
    } catch (error) {
      this.parts.log.error("pending changes could not be stored", error);
    }
  }

  private dropped(paths: readonly string[]): void {
    for (const path of paths) {
      this.parts.log.warn(`too many pending changes: those of ${path} count as kept`);
      const file = this.files.get(path);
      if (file) this.forget(file);
    }
  }
}

export function shownDocument(path: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find(
    ({ uri, isClosed }) => uri.scheme === "file" && uri.fsPath === path && !isClosed,
  );
}

/** The text of a file; undefined if it is binary. */
function textOf(bytes: Buffer): string | undefined {
  try {
    return decode(bytes, "").content;
  } catch {
    return undefined;
  }
}
