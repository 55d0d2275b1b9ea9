/**
 * Finds the net that a command is about, and ensures that it is saved and the workspace is trusted.
 */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { isNet, NET_ENDINGS } from "../common/nets";

/** The URI from a menu or code lens, or else that of the active editor. */
export function chosenNet(given?: unknown): vscode.Uri {
  const uri = given instanceof vscode.Uri ? given : vscode.window.activeTextEditor?.document.uri;
  if (uri?.scheme !== "file" || !isNet(uri.path))
    throw new Failure("net.none", `Open a net first: a file ${NET_ENDINGS.join(", ")}`);
  return uri;
}

export async function savedNet(uri: vscode.Uri): Promise<void> {
  const open = openDocument(uri);
  if (open?.isDirty && !(await open.save()))
    throw new Failure("net.not_saved", `${uri.fsPath} could not be saved, so it was not run`);
}

export function openDocument(uri: vscode.Uri): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((each) => each.uri.toString() === uri.toString());
}

export function ensureTrusted(): void {
  if (!vscode.workspace.isTrusted)
    throw new Failure(
      "net.untrusted",
      "This workspace is not trusted, so nothing was started. Trust it first",
    );
}
