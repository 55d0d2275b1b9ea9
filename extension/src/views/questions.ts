/** Asks the user whether an agent may act, in the window. */
import * as vscode from "vscode";
import type { ApprovalAnswer, ApprovalRequested } from "../hub/contract";

const ANSWERS: readonly (readonly [string, ApprovalAnswer])[] = [
  ["Allow Once", "once"],
  ["Allow in This Workspace", "workspace"],
  ["Deny", "deny"],
];

/** Dismissing the message is no answer: the time runs on, and a page may still answer. */
export async function askInWindow(
  { agent, summary, detail }: ApprovalRequested,
  signal: AbortSignal,
): Promise<ApprovalAnswer | undefined> {
  const text = `${agent} wants to: ${summary}${detail ? `\n${detail}` : ""}`;
  const given = await vscode.window.showWarningMessage(text, ...ANSWERS.map(([label]) => label));
  return signal.aborted ? undefined : ANSWERS.find(([label]) => label === given)?.[1];
}

/** What a cell that the user runs asks for; nothing when they give it up. */
export async function askForInput(question: string): Promise<string | undefined> {
  return vscode.window.showInputBox({
    prompt: question || "The cell asks for input",
    ignoreFocusOut: true,
  });
}
