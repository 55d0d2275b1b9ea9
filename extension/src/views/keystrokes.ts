/**
 * Touches a file when the user types or clicks in an editor. The file's modification time shows
 * whether a session is idle.
 */
import { open } from "node:fs/promises";
import * as vscode from "vscode";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";

/** Minimum milliseconds between two updates of the file. */
const MIN_INTERVAL_MS = 5_000;

/**
 * Only keyboard and mouse selection changes count, not edits by agents, opened files or open tabs.
 */
export function watchKeystrokes(file: string, log: Log): vscode.Disposable {
  let lastTouch = 0;
  return vscode.window.onDidChangeTextEditorSelection(({ kind }) => {
    const { Keyboard, Mouse } = vscode.TextEditorSelectionChangeKind;
    const now = Date.now();
    if ((kind !== Keyboard && kind !== Mouse) || now - lastTouch < MIN_INTERVAL_MS) return;
    lastTouch = now;
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
