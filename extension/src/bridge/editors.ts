/** Editor requests: open a file, show a diff, apply edits, read the active editor. */
import * as path from "node:path";
import * as vscode from "vscode";
import { saveDocument } from "../save_document";
import { Failure, messageOf } from "../common/failure";
import { partsOf } from "../consent/request";
import { scriptRequest, type RunConsent } from "./consent";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import type { Params } from "./messages";
import { count, flag, invalid, isGiven, object, objects, text } from "./params";

export interface EditorRequestParts {
  consent: RunConsent;
  /** The real path of an absolute path. */
  real: (file: string) => Promise<string>;
  /** Adds a virtual document and returns its URI. */
  addText: (name: string, content: string) => vscode.Uri;
}

export class EditorRequests {
  constructor(private readonly parts: EditorRequestParts) {}

  get handlers(): RequestHandlers {
    return {
      "vscode/openFile": ({ params }) => openFile(params),
      "vscode/diff": ({ params }) => this.diff(params),
      "vscode/applyEdit": (request) => this.applyEdit(request),
      "vscode/activeEditor": ({ params }) => Promise.resolve(activeEditor(params)),
    };
  }

  private async diff(params: Params): Promise<unknown> {
    const [left, right] = (["left", "right"] as const).map((side) => {
      const given = object(params, side);
      return isGiven(given, "path") ? file(given) : this.parts.addText(side, text(given, "text"));
    });
    const title = text(params, "title", "") || "Compare";
    await vscode.commands.executeCommand("vscode.diff", left, right, title, { preview: true });
    return {};
  }

  /** Uses one WorkspaceEdit, so that the user can undo it in one step. */
  private async applyEdit({ params, run, name, signal }: BridgeRequest): Promise<unknown> {
    const edits = objects(params, "edits");
    const label = text(params, "label", "");
    const files = [...new Set(edits.map((edit) => text(edit, "path")))];
    const paths = await Promise.all(
      files.map(async (given) => ({ given, real: await this.parts.real(given), isWritten: true })),
    );
    const wanted = scriptRequest("vscode/applyEdit", name, partsOf({ label, edits }), paths);
    await this.parts.consent.admit(run, EDITS, wanted, signal);
    const all = new vscode.WorkspaceEdit();
    for (const each of files) await addEdits(all, each, edits, label);
    if (signal.aborted) return { applied: false };
    const applied = await vscode.workspace.applyEdit(all);
    if (applied && flag(params, "save")) await Promise.all(files.map(save));
    return { applied };
  }
}

/** The name of the grant to change files. */
export const EDITS = "edits";

async function openFile(params: Params): Promise<unknown> {
  const uri = file(params);
  const options: vscode.TextDocumentShowOptions = {
    preview: flag(params, "preview", true),
    ...(flag(params, "beside") ? { viewColumn: vscode.ViewColumn.Beside } : {}),
  };
  if (isGiven(params, "line")) {
    const at = new vscode.Position(count(params, "line") - 1, count(params, "column", 1) - 1);
    options.selection = new vscode.Range(at, at);
  }
  try {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), options);
  } catch (error) {
    throw new Failure("bridge.failed", `${uri.fsPath} cannot be shown: ${messageOf(error)}`);
  }
  return {};
}

function activeEditor(params: Params): unknown {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return { editor: null };
  const { document, selection } = editor;
  return {
    editor: {
      path: document.uri.scheme === "file" ? document.uri.fsPath : null,
      language: document.languageId,
      text: flag(params, "text") ? document.getText() : "",
      isDirty: document.isDirty,
      selection: {
        text: document.getText(selection),
        start: lineAndColumn(selection.start),
        end: lineAndColumn(selection.end),
      },
    },
  };
}

async function addEdits(
  all: vscode.WorkspaceEdit,
  given: string,
  edits: readonly Params[],
  label: string,
): Promise<void> {
  const uri = file({ path: given });
  const metadata = label ? { needsConfirmation: false, label } : undefined;
  const mine = edits.filter((edit) => edit["path"] === given);
  const document = await vscode.workspace.openTextDocument(uri).then(
    (found) => found,
    () => undefined,
  );
  for (const edit of mine) {
    const fresh = text(edit, "text");
    const isWhole = !isGiven(edit, "start");
    if (!document) {
      if (!isWhole) throw new Failure("bridge.failed", `${given} does not exist`);
      all.createFile(uri, { overwrite: false, contents: Buffer.from(fresh) }, metadata);
    } else if (isWhole) {
      if (document.isDirty)
        throw new Failure(
          "bridge.failed",
          `${given} has changes that the user has not saved; replacing the whole text would lose them`,
        );
      all.replace(uri, new vscode.Range(0, 0, document.lineCount, 0), fresh, metadata);
    } else all.replace(uri, range(edit), fresh, metadata);
  }
}

async function save(given: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument(file({ path: given }));
  if (!(await saveDocument(document)) && document.isDirty)
    throw new Failure("bridge.failed", `${given} was changed, but could not be saved`);
}

function range(edit: Params): vscode.Range {
  const [start, end] = (["start", "end"] as const).map((name) => {
    const place = object(edit, name, object(edit, "start"));
    return new vscode.Position(count(place, "line") - 1, count(place, "column", 1) - 1);
  }) as [vscode.Position, vscode.Position];
  return new vscode.Range(start, end);
}

function file(params: Params): vscode.Uri {
  const given = text(params, "path");
  if (!path.isAbsolute(given)) throw invalid("path", "an absolute path");
  return vscode.Uri.file(given);
}

function lineAndColumn({ line, character }: vscode.Position): { line: number; column: number } {
  return { line: line + 1, column: character + 1 };
}
