/** Runs VS Code commands for scripts that are allowed to. */
import * as vscode from "vscode";
import { Failure, messageOf } from "../common/failure";
import { commandsRunBy } from "../common/nested_commands";
import { partsOf } from "../consent/request";
import { CONSENT_COMMANDS } from "../manifest";
import { scriptRequest, type RunConsent } from "./consent";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import { list, text } from "./params";

export function commands(consent: RunConsent): RequestHandlers {
  return {
    "vscode/executeCommand": async ({ params, run, name, signal }: BridgeRequest) => {
      const command = text(params, "command");
      const args = list(params, "args", []);
      if (commandsRunBy(command, args).some((each) => CONSENT_COMMANDS.has(each)))
        throw new Failure(
          "bridge.not_allowed",
          "Only the user may answer questions and review changes",
        );
      const parts = partsOf({ command, args });
      await consent.admit(
        run,
        command,
        scriptRequest("vscode/executeCommand", name, parts),
        signal,
      );
      if (signal.aborted) return { result: null };
      return { result: asJson(await execute(command, args), command) };
    },
  };
}

async function execute(command: string, args: unknown[]): Promise<unknown> {
  try {
    return await vscode.commands.executeCommand(command, ...args);
  } catch (error) {
    throw new Failure("command.failed", `The command '${command}' failed: ${messageOf(error)}`);
  }
}

function asJson(result: unknown, command: string): unknown {
  try {
    const text = JSON.stringify(result) as string | undefined;
    return text === undefined ? null : (JSON.parse(text) as unknown);
  } catch {
    throw new Failure(
      "command.not_serializable",
      `The command '${command}' was run, but its result cannot be converted to JSON`,
    );
  }
}
