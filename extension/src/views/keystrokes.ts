/** Notes in a file that somebody uses an editor here: what ends idle sessions goes by it. */
import { open } from "node:fs/promises";
import * as vscode from "vscode";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";

/** Milliseconds within which a second keystroke is not worth another note. */
const APART = 5_000;

/** An edit by an agent, a file that was opened or a tab that was left open is no keystroke. */
export function noteKeystrokes(file: string, log: Log): vscode.Disposable {
  let noted = 0;
  return vscode.window.onDidChangeTextEditorSelection(({ kind }) => {
    const { Keyboard, Mouse } = vscode.TextEditorSelectionChangeKind;
    const now = Date.now();
    if ((kind !== Keyboard && kind !== Mouse) || now - noted < APART) return;
    noted = now;
    touch(file).catch((error: unknown) => log.debug(`no keystroke noted: ${messageOf(error)}`));
  });
}

async function touch(file: string): Promise<void> {
  const opened = await open(file, "a");
  try {
    await opened.utimes(new Date(), new Date());
  } finally {
    await opened.close();
  }
}
