/** Opens the notebook that an action names, in the background if it is not open. */
import { readFile, stat } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { withPathErrors, type ResolvedPath } from "../actions/paths";
import { within } from "../common/deadline";
import { Failure, messageOf } from "../common/failure";

/** Milliseconds to wait until an open notebook shows the file on disk. */
const FOLLOW_MS = 5000;

/** Fails with `notebook.invalid` if the file is no notebook. */
export async function openNotebook(target: ResolvedPath): Promise<vscode.NotebookDocument> {
  const { displayPath, real } = target;
  await withPathErrors(displayPath, async () => {
    // VS Code's own errors have no codes.
    if ((await stat(real)).isDirectory()) throw Object.assign(new Error(), { code: "EISDIR" });
  });
  const known = vscode.workspace.notebookDocuments.find(
    ({ uri, isClosed }) => uri.scheme === "file" && uri.fsPath === real && !isClosed,
  );
  if (known) {
    await followed(known, real);
    return known;
  }
  if (path.extname(real) !== ".ipynb")
    throw new Failure("notebook.invalid", `${displayPath} is not a notebook: it is no .ipynb file`);
  try {
    return await vscode.workspace.openNotebookDocument(vscode.Uri.file(real));
  } catch (error) {
    throw new Failure(
      "notebook.invalid",
      `VS Code cannot read ${displayPath} as a notebook: ${messageOf(error)}`,
    );
  }
}

/** Waits until a notebook without unsaved changes has the cells of its file. */
async function followed(notebook: vscode.NotebookDocument, file: string): Promise<void> {
  if (notebook.isDirty) return;
  const wanted = sourcesIn(await readFile(file, "utf8"));
  const isCurrent = (): boolean =>
    notebook.isDirty || JSON.stringify(notebook.getCells().map(sourceOf)) === wanted;
  if (wanted === undefined || isCurrent()) return;
  let listening: vscode.Disposable | undefined;
  const changed = new Promise<void>((resolve) => {
    listening = vscode.workspace.onDidChangeNotebookDocument(() =>
      isCurrent() ? resolve() : undefined,
    );
  });
  // The cells may never match, because VS Code changes some texts when it reads a notebook. Then
  // the action continues with the cells that VS Code has.
  await within(changed, FOLLOW_MS, () => new Error("late")).catch(() => undefined);
  listening?.dispose();
}

function sourceOf({ document }: vscode.NotebookCell): string {
  return document.getText().replaceAll("\r\n", "\n");
}

/** The sources of the cells as JSON; undefined if the file is no notebook. */
function sourcesIn(json: string): string | undefined {
  try {
    const { cells } = JSON.parse(json) as { cells: { source: string | string[] }[] };
    return JSON.stringify(cells.map(({ source }) => [source].flat().join("")));
  } catch {
    return undefined;
  }
}
