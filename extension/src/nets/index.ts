/** Builds the editor support for nets: problems, completion, code lenses, drawings, markings. */
import * as path from "node:path";
import * as vscode from "vscode";
import { userCommand } from "../user_command";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { NET_ENDINGS } from "../common/nets";
import { CommandId } from "../manifest";
import { basculePython } from "../settings";
import { chosenNet, ensureTrusted } from "./selected_net";
import { NetCompletion } from "./completion";
import { DrawingPanels } from "./drawing_panels";
import { netCodeLenses } from "./code_lenses";
import { LiveMarkings } from "./live_markings";
import { NetProblems } from "./problems";
import { NetCli } from "./net_cli";
import { NetDrawings } from "./net_drawings";

const NETS: vscode.DocumentFilter = { scheme: "file", pattern: `**/*{${NET_ENDINGS.join(",")}}` };

const WRITTEN: vscode.DocumentFilter = { ...NETS, language: "yaml" };

export function buildNets(
  context: vscode.ExtensionContext,
  log: Log,
): Disposable & { live: LiveMarkings } {
  const owned = new Disposables();
  const program = new NetCli(basculePython);
  const views = owned.add(new NetDrawings(program, log));
  const live = owned.add(new LiveMarkings(views, log));
  const drawings = owned.add(new DrawingPanels(views, live));
  owned.add(new NetProblems(program, log));
  owned.add(vscode.languages.registerCodeLensProvider(NETS, netCodeLenses));
  const schema = path.join(context.extensionPath, "dist/evolve.schema.json");
  owned.add(vscode.languages.registerCompletionItemProvider(WRITTEN, new NetCompletion(schema)));
  owned.add(
    userCommand(CommandId.showNet, log, async (given) => {
      ensureTrusted();
      await drawings.show(chosenNet(given));
    }),
  );
  return { live, dispose: () => owned.dispose() };
}
