import type * as vscode from "vscode";
import { withoutControls } from "../common/terminal_text";
import { IntegrationOutput } from "../terminal/integration_output";

/**
 * Passes the output of a shell's execution to `add`, without control sequences. VS Code returns
 * only output that is printed after the call. Resolves when VS Code ends the stream.
 */
export async function followOutput(
  execution: vscode.TerminalShellExecution,
  add: (text: string) => void,
): Promise<void> {
  const pieces = execution.read();
  const filter = new IntegrationOutput();
  for await (const piece of pieces) add(withoutControls(filter.add(piece)));
  add(withoutControls(filter.end()));
}
