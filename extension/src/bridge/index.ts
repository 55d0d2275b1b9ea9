/** Puts the bridge together: what scripts, nets and debug sessions may ask of this window. */
import * as vscode from "vscode";
import { userCommand } from "../user_command";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import type { Choice, Questions } from "../consent/questions";
import type { Request } from "../consent/request";
import { fits } from "../common/patterns";
import { Command } from "../manifest";
import { evolveSetting, basculePython } from "../settings";
import { Chat } from "./chat";
import { commands } from "./commands";
import { RunConsent, type Grant } from "./consent";
import { DebugBridge } from "./debug_bridge";
import type { Handlers } from "./dispatcher";
import { dialogs } from "./dialogs";
import { EDITS, Editors } from "./editors";
import { Elsewhere } from "./hub_requests";
import { forms } from "./form";
import { Launcher, type LaunchSettings } from "./launcher";
import { Outputs } from "./outputs";
import { Problems } from "./problems";
import { RunBridge } from "./server";

export interface BridgeParts {
  context: vscode.ExtensionContext;
  addText: (name: string, content: string) => vscode.Uri;
  /** Asks the user about what a script wants to do. */
  questions: Questions;
  /** Where an absolute path leads, links resolved. */
  real: (file: string) => Promise<string>;
  /** Has the marking of a net shown while it runs. */
  follow: LaunchSettings["follow"];
  log: Log;
}

/** The window's answers, for whatever brings questions; with the commands that start runs. */
export function buildBridge(parts: BridgeParts): Disposable & {
  elsewhere: Elsewhere;
  /** What the user allowed for the time of a run is asked again. */
  forgetGrants: () => void;
} {
  const { context, addText, follow, questions, real, log } = parts;
  const owned = new Disposables();
  const consent = new RunConsent({
    isTrusted: () => vscode.workspace.isTrusted,
    isAllowed: (what) =>
      what === EDITS
        ? evolveSetting("runBridge.allowEdits")
        : evolveSetting("runBridge.allowedCommands").some((pattern) => fits(what, pattern)),
    ask: (request, signal) => askUser(questions, request, signal),
    allowAlways,
  });
  const problems = owned.add(new Problems());
  const outputs = owned.add(new Outputs());
  const handlers: Handlers = {
    "bridge/ping": () => Promise.resolve({}),
    ...new Chat().handlers,
    ...dialogs,
    ...forms,
    ...new Editors({ consent, addText, real }).handlers,
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
  owned.add(userCommand(Command.runNet, log, (given) => launcher.runNet(given)));
  owned.add(userCommand(Command.openBridgedTerminal, log, () => launcher.openTerminal()));
  return {
    elsewhere: new Elsewhere(handlers, log),
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
  request: Request,
  signal: AbortSignal,
): Promise<Grant> {
  try {
    const { answer } = await questions.ask(request, GRANTS, signal);
    return answer === "deny" ? undefined : (answer as Grant);
  } catch (error) {
    if (signal.aborted) return undefined; // nobody waits for the answer
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
