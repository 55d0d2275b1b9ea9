/**
 * The debugger for nets: VS Code's debugger with our debug adapter. During a session the bridge
 * answers requests of the net. VS Code owns the breakpoints; nothing here changes them.
 */
import * as vscode from "vscode";
import { userCommand } from "../user_command";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { bascule } from "../common/nets";
import { CommandId, DEBUG_TYPE } from "../manifest";
import { chosenNet, ensureTrusted } from "../nets/selected_net";
import type { LiveMarkings } from "../nets/live_markings";
import { basculePython } from "../settings";
import { DebugConfigurations, sessionOf } from "./configuration";

export function buildDebugger(live: LiveMarkings, log: Log): Disposable {
  const owned = new Disposables();
  const configurations = owned.add(new DebugConfigurations(live));
  owned.add(vscode.debug.registerDebugConfigurationProvider(DEBUG_TYPE, configurations));
  owned.add(
    vscode.debug.registerDebugAdapterDescriptorFactory(DEBUG_TYPE, {
      createDebugAdapterDescriptor() {
        const [command, ...args] = bascule(basculePython(), "debug-adapter");
        return new vscode.DebugAdapterExecutable(command, args);
      },
    }),
  );
  owned.add(userCommand(CommandId.debugNet, log, debugNet));
  return owned;
}

async function debugNet(given?: unknown): Promise<void> {
  ensureTrusted();
  const uri = chosenNet(given);
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  // On failure, the configuration provider has already shown an error.
  await vscode.debug.startDebugging(folder, sessionOf(uri));
}
