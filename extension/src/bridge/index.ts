/** Builds the bridge, which answers requests of scripts, nets and debug sessions in this window. */
import * as vscode from "vscode";
import { userCommand } from "../user_command";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import type { Choice, Questions } from "../consent/questions";
import type { ConsentRequest } from "../consent/request";
import { matchesPattern } from "../common/patterns";
import { CommandId } from "../manifest";
import { evolveSetting, basculePython } from "../settings";
import { Chat } from "./chat";
import { commands } from "./commands";
import { RunConsent, type Grant } from "./consent";
import { DebugBridge } from "./debug_bridge";
import type { RequestHandlers } from "./dispatcher";
import { dialogs } from "./dialogs";
import { EDITS, EditorRequests } from "./editors";
import { HubRequests } from "./hub_requests";
import { forms } from "./form";
import { Launcher, type LaunchSettings } from "./launcher";
import { OutputChannels } from "./outputs";
import { ScriptProblems } from "./problems";
import { RunBridge } from "./server";

export interface BridgeParts {
  context: vscode.ExtensionContext;
  addText: (name: string, content: string) => vscode.Uri;
  /** For questions about scripts' requests. */
  questions: Questions;
  /** The real path of an absolute path. */
  real: (file: string) => Promise<string>;
  /** Shows the marking of a net while it runs. */
  follow: LaunchSettings["follow"];
  log: Log;
}

/**
 * Builds the request handlers, their transports (WebSocket, debug sessions, hub) and the commands
 * that start runs.
 */
export function buildBridge(parts: BridgeParts): Disposable & {
  hubRequests: HubRequests;
  /** Removes the grants of all runs. */
  forgetGrants: () => void;
} {
  const { context, addText, follow, questions, real, log } = parts;
  const owned = new Disposables();
  const consent = new RunConsent({
    isTrusted: () => vscode.workspace.isTrusted,
    isAllowed: (what) =>
      what === EDITS
        ? evolveSetting("runBridge.allowEdits")
        : evolveSetting("runBridge.allowedCommands").some((pattern) =>
            matchesPattern(what, pattern),
          ),
    ask: (request, signal) => askUser(questions, request, signal),
    allowAlways,
  });
  const problems = owned.add(new ScriptProblems());
  const outputs = owned.add(new OutputChannels());
  const handlers: RequestHandlers = {
    "bridge/ping": () => Promise.resolve({}),
    ...new Chat().handlers,
    ...dialogs,
    ...forms,
    ...new EditorRequests({ consent, addText, real }).handlers,
    ...problems.handlers,
    ...outputs.handlers,
    ...commands(consent),
  };
  const forget = (run: string): void => {
    consent.forget(run);
    problems.forget(run);
  };
  const { version } = context.extension.packageJSON as { version: string };
  const settings = { port: () => evolveSetting("runBridge.port"), version };
  const bridge = owned.add(new RunBridge(handlers, settings, log));
  const launcher = owned.add(
    new Launcher(
      bridge,
      {
        isEnabled: () => evolveSetting("runBridge.enabled"),
        python: basculePython,
        follow,
      },
      forget,
    ),
  );
  owned.add(new DebugBridge(handlers, log, forget));
  owned.add(userCommand(CommandId.runNet, log, (given) => launcher.runNet(given)));
  owned.add(userCommand(CommandId.openBridgedTerminal, log, () => launcher.openTerminal()));
  return {
    hubRequests: new HubRequests(handlers, log),
    forgetGrants: () => consent.forgetAll(),
    dispose: () => owned.dispose(),
  };
}

const GRANTS: readonly Choice[] = [
  ["Allow Once", "once"],
  ["Allow for This Run", "run"],
  ["Always Allow", "always"],
  ["Deny", "deny"],
];

async function askUser(
  questions: Questions,
  request: ConsentRequest,
  signal: AbortSignal,
): Promise<Grant> {
  try {
    const { answer } = await questions.ask(request, GRANTS, signal);
    return answer === "deny" ? undefined : (answer as Grant);
  } catch (error) {
    if (signal.aborted) return undefined; // the request was cancelled
    throw error;
  }
}

async function allowAlways(what: string): Promise<void> {
  const settings = vscode.workspace.getConfiguration("evolve");
  const global = vscode.ConfigurationTarget.Global;
  if (what === EDITS) await settings.update("runBridge.allowEdits", true, global);
  else {
    const allowed = evolveSetting("runBridge.allowedCommands");
    await settings.update("runBridge.allowedCommands", [...allowed, what], global);
  }
}
