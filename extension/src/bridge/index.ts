/** Puts the bridge together: what scripts, nets and debug sessions may ask of this window. */
import * as vscode from "vscode";
import { userCommand } from "../command";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { fits } from "../common/patterns";
import { Command } from "../manifest";
import { evolveSetting, setting } from "../settings";
import { Chat } from "./chat";
import { commands } from "./commands";
import { RunConsent, type Grant } from "./consent";
import { DebugBridge } from "./debugging";
import type { Handlers } from "./desk";
import { dialogs } from "./dialogs";
import { EDITS, Editors } from "./editors";
import { Elsewhere } from "./elsewhere";
import { forms } from "./form";
import { Launcher, type LaunchSettings } from "./launch";
import { Outputs } from "./outputs";
import { Problems } from "./problems";
import { RunBridge } from "./server";

export interface BridgeParts {
  context: vscode.ExtensionContext;
  addText: (name: string, content: string) => vscode.Uri;
  /** Has the marking of a net shown while it runs. */
  follow: LaunchSettings["follow"];
  log: Log;
}

/** The window's answers, for whatever brings questions; with the commands that start runs. */
export function buildBridge({ context, addText, follow, log }: BridgeParts): Disposable & {
  elsewhere: Elsewhere;
} {
  const owned = new Disposables();
  const consent = new RunConsent({
    isTrusted: () => vscode.workspace.isTrusted,
    isAllowed: (what) =>
      what === EDITS
        ? evolveSetting("runBridge.allowEdits")
        : evolveSetting("runBridge.allowedCommands").some((pattern) => fits(what, pattern)),
    ask: askUser,
    allowAlways,
  });
  const problems = owned.add(new Problems());
  const outputs = owned.add(new Outputs());
  const handlers: Handlers = {
    "bridge/ping": () => Promise.resolve({}),
    ...new Chat().handlers,
    ...dialogs,
    ...forms,
    ...new Editors({ consent, addText }).handlers,
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
        python: () => setting("python"),
        follow,
      },
      forget,
    ),
  );
  owned.add(new DebugBridge(handlers, log, forget));
  owned.add(userCommand(Command.runNet, log, (given) => launcher.runNet(given)));
  owned.add(userCommand(Command.openBridgedTerminal, log, () => launcher.openTerminal()));
  return { elsewhere: new Elsewhere(handlers, log), dispose: () => owned.dispose() };
}

const GRANTS: readonly (readonly [string, Exclude<Grant, undefined>])[] = [
  ["Allow Once", "once"],
  ["Allow for This Run", "run"],
  ["Always Allow", "always"],
];

async function askUser(question: string, signal: AbortSignal): Promise<Grant> {
  const labels = GRANTS.map(([label]) => label);
  const answer = await vscode.window.showWarningMessage(`${question}.`, ...labels, "Deny");
  return signal.aborted ? undefined : GRANTS.find(([label]) => label === answer)?.[1];
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
