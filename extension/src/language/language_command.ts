/** Runs the built-in commands of VS Code that ask language servers. */
import * as vscode from "vscode";
import { Failure, messageOf } from "../common/failure";

/** The result of the command; the error of a language server becomes a failure. */
export async function execute<T>(command: string, ...args: unknown[]): Promise<T | undefined> {
  try {
    return await vscode.commands.executeCommand<T | undefined>(command, ...args);
  } catch (error) {
    throw new Failure("execution", `The language server failed: ${messageOf(error)}`);
  }
}
