/** The net a command is about, ready to be run: saved, in a workspace the user trusts. */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { isNet, NET_ENDINGS } from "../common/nets";

/** The one in `given`, as a menu or a lens gives it, or else that of the active editor. */
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
    throw new Failure("net.untrusted", "Nothing is started in a workspace you do not trust");
}
