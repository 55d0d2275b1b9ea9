/** Unsaved changes in the editor: text documents and notebooks. */
import * as path from "node:path";
import * as vscode from "vscode";
import { Failure } from "../common/failure";

/** The API of VS Code's own Jupyter support. */
interface IpynbApi {
  exportNotebook(data: vscode.NotebookData): Promise<string>;
}

const IPYNB = "vscode.ipynb";

/** The text of `file` in the editor if it has unsaved changes, otherwise undefined. */
export async function unsavedText(file: string): Promise<string | undefined> {
  const notebook = dirtyNotebooks().find(({ uri }) => uri.fsPath === file);
  if (notebook) return serialized(notebook);
  return dirtyDocuments()
    .find(({ uri }) => uri.fsPath === file)
    ?.getText();
}

/** All unsaved texts by file. Notebooks that cannot be converted to text are left out. */
export async function unsavedTexts(): Promise<Map<string, string>> {
  const texts = new Map(dirtyDocuments().map((each) => [each.uri.fsPath, each.getText()]));
  for (const notebook of dirtyNotebooks()) {
    const text = await serialized(notebook).catch(() => undefined);
    if (text !== undefined) texts.set(notebook.uri.fsPath, text);
  }
  return texts;
}

/** The files with unsaved changes: `file` itself, or those below it. */
export function unsavedFiles(file: string): string[] {
  const below = file.endsWith(path.sep) ? file : file + path.sep;
  return [...dirtyDocuments(), ...dirtyNotebooks()]
    .map(({ uri }) => uri.fsPath)
    .filter((each) => each === file || each.startsWith(below));
}

function dirtyDocuments(): vscode.TextDocument[] {
  return vscode.workspace.textDocuments.filter(
    (document) => document.isDirty && !document.isClosed && document.uri.scheme === "file",
  );
}

function dirtyNotebooks(): vscode.NotebookDocument[] {
  return vscode.workspace.notebookDocuments.filter(
    (notebook) => notebook.isDirty && !notebook.isClosed && notebook.uri.scheme === "file",
  );
}

/** The text that saving the notebook would write. */
async function serialized(notebook: vscode.NotebookDocument): Promise<string> {
  const jupyter = vscode.extensions.getExtension<IpynbApi>(IPYNB);
  if (notebook.notebookType !== "jupyter-notebook" || !jupyter)
    throw new Failure(
      "edit.conflict",
      `${notebook.uri.fsPath} has cells that the user has not saved, and this window cannot turn ` +
        `notebooks of the type ${notebook.notebookType} into text. Ask the user to save it first`,
    );
  const data = new vscode.NotebookData(notebook.getCells().map(dataOf));
  data.metadata = notebook.metadata;
  return (await jupyter.activate()).exportNotebook(data);
}

/** A copy of the cell, with its outputs. */
export function dataOf(cell: vscode.NotebookCell): vscode.NotebookCellData {
  const { kind, document, metadata, outputs, executionSummary } = cell;
  const data = new vscode.NotebookCellData(kind, document.getText(), document.languageId);
  data.metadata = metadata;
  data.outputs = [...outputs];
  if (executionSummary) data.executionSummary = executionSummary;
  return data;
}
