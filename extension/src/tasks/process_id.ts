import type * as vscode from "vscode";
import { within } from "../common/deadline";

/** Milliseconds to wait for a terminal whose process has not started. */
const WAIT_MS = 1000;

/** The id of the terminal's process. Null if none has started. */
export async function processIdOf(terminal: vscode.Terminal): Promise<number | null> {
  const known = Promise.resolve(terminal.processId);
  const pid = await within(known, WAIT_MS, () => new Error("no process")).catch(() => null);
  return pid ?? null;
}
