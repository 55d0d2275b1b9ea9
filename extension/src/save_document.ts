/** Saves documents that the user may change at the same time. */
import * as vscode from "vscode";

/**
 * Saves a document. Afterwards the file has the text of the editor, or the document is dirty.
 * Returns false if VS Code did not save it.
 *
 * Undo during a save needs a second save: until VS Code knows that the file was written, it takes
 * the text before for the saved one. Undo brings that text back, so VS Code marks the document as
 * saved, although the file has the other text.
 */
export async function saveDocument(document: vscode.TextDocument): Promise<boolean> {
  let isUndone = false as boolean; // the listener sets it
  const listening = vscode.workspace.onDidChangeTextDocument((event) => {
    if (event.document === document && event.contentChanges.length)
      isUndone = event.reason !== undefined;
  });
  try {
    const isSaved = await document.save();
    // `document.save` does nothing without unsaved changes, `workspace.save` writes the file.
    if (isUndone && !document.isDirty)
      return (await vscode.workspace.save(document.uri)) !== undefined;
    return isSaved;
  } finally {
    listening.dispose();
  }
}
