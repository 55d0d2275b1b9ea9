/** Watches open nets: reports each net that was opened or edited, or needs another check. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { isNet } from "../common/nets";
import type { NetCliResult, NetCli } from "./net_cli";

/** Milliseconds without a change after which an edited net is checked. */
export const PAUSE_MS = 250;

/** Calls `look` without delay for an opened net, and with a delay for an edited one. */
export function watchNets(
  check: (document: vscode.TextDocument, delayMs: number) => void,
  forget: (document: vscode.TextDocument) => void,
): Disposable {
  const owned = new Disposables();
  const at = (delayMs: number, document: vscode.TextDocument): void => {
    if (isOpenNet(document)) check(document, delayMs);
  };
  const all = (): void => vscode.workspace.textDocuments.forEach((each) => at(0, each));
  owned.add(vscode.workspace.onDidOpenTextDocument((document) => at(0, document)));
  owned.add(vscode.workspace.onDidChangeTextDocument(({ document }) => at(PAUSE_MS, document)));
  owned.add(
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (isOpenNet(document)) forget(document);
    }),
  );
  owned.add(vscode.workspace.onDidGrantWorkspaceTrust(all));
  owned.add(
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("bascule.python")) all();
    }),
  );
  all();
  return owned;
}

/** Runs `bascule net` on the current text of a document, saved or not. */
export function runNetCli(
  program: NetCli,
  what: string[],
  document: vscode.TextDocument,
  signal: AbortSignal,
): Promise<NetCliResult> {
  const args = ["net", ...what, "-", "--name", document.uri.fsPath];
  return program.ask(args, document.getText(), signal);
}

function isOpenNet(document: vscode.TextDocument): boolean {
  return document.uri.scheme === "file" && isNet(document.uri.path);
}
