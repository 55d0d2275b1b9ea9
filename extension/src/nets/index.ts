/** Puts together what the editor does with nets. */
import * as path from "node:path";
import * as vscode from "vscode";
import { userCommand } from "../user_command";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { NET_ENDINGS } from "../common/nets";
import { Command } from "../manifest";
import { basculePython } from "../settings";
import { chosenNet, ensureTrusted } from "./selected_net";
import { NetCompletion } from "./completion";
import { Drawings } from "./drawing_panels";
import { lenses } from "./code_lenses";
import { LiveMarkings } from "./live_markings";
import { NetProblems } from "./problems";
import { Program } from "./net_cli";
import { NetViews } from "./net_drawings";

const NETS: vscode.DocumentFilter = { scheme: "file", pattern: `**/*{${NET_ENDINGS.join(",")}}` };

const WRITTEN: vscode.DocumentFilter = { ...NETS, language: "yaml" };

export function buildNets(
  context: vscode.ExtensionContext,
  log: Log,
): Disposable & { live: LiveMarkings } {
  const owned = new Disposables();
  const program = new Program(basculePython);
  const views = owned.add(new NetViews(program, log));
  const live = owned.add(new LiveMarkings(views, log));
  const drawings = owned.add(new Drawings(views, live));
  owned.add(new NetProblems(program, log));
  owned.add(vscode.languages.registerCodeLensProvider(NETS, lenses));
  const schema = path.join(context.extensionPath, "dist/evolve.schema.json");
  owned.add(vscode.languages.registerCompletionItemProvider(WRITTEN, new NetCompletion(schema)));
  owned.add(
    userCommand(Command.showNet, log, async (given) => {
      ensureTrusted();
      await drawings.show(chosenNet(given));
    }),
  );
  return { live, dispose: () => owned.dispose() };
}
