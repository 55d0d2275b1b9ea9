/** Registers a command whose errors are logged and shown to the user. */
import * as vscode from "vscode";
import { messageOf } from "./common/failure";
import type { Log } from "./common/log";

export function userCommand(
  id: string,
  log: Log,
  run: (given?: unknown) => Promise<void>,
): vscode.Disposable {
  return vscode.commands.registerCommand(id, async (given?: unknown) => {
    try {
      await run(given);
    } catch (error) {
      log.error(error instanceof Error ? error : String(error));
      void vscode.window.showErrorMessage(`Bascule: ${messageOf(error)}`);
    }
  });
}
