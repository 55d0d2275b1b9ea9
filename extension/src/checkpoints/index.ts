/** Builds checkpoints for a window: finds Python and the store, and follows what the user saves. */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Documents } from "../actions/documents";
import type { Log } from "../common/log";
import { withoutLinks } from "../consent/visible_text";
import { CommandId } from "../manifest";
import { setting } from "../settings";
import { which } from "../terminal/observations";
import { userCommand } from "../user_command";
import { CheckpointWorker } from "./checkpoint_worker";
import { Checkpoints } from "./checkpoints";
import { OpenFiles } from "./open_files";
import { RestoreCommand } from "./restore_command";

/** Names of interpreters, in the order in which they are tried. */
const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

export function buildCheckpoints(parts: {
  context: vscode.ExtensionContext;
  roots: () => string[];
  documents: Documents;
  log: Log;
}): Checkpoints {
  const { context, roots, documents, log } = parts;
  const files = new OpenFiles(documents);
  const script = path.join(
    context.extensionPath,
    "dist/python/bascule/checkpoints/_worker_main.py",
  );
  const checkpoints = new Checkpoints({
    whyOff: () => whyOff(roots()),
    isTrusted: () => vscode.workspace.isTrusted,
    start: (onNotice, onEnd) => {
      const workspace = roots()[0] ?? "";
      const settings = {
        pythons: pythons(),
        script,
        store: storeOf(workspace),
        workspace,
        mostBytes: setting("checkpoints.storeLimit"),
      };
      const others = roots().slice(1);
      if (others.length)
        onNotice(`Checkpoints are for ${workspace} only, not for ${others.join(", ")}`);
      return CheckpointWorker.start(settings, files, onNotice, onEnd);
    },
    onUnavailable: (why) =>
      void vscode.window.showWarningMessage(
        withoutLinks(`Bascule: there are no checkpoints: ${why}`),
      ),
    log,
  });
  context.subscriptions.push(
    checkpoints,
    vscode.workspace.onDidSaveTextDocument(({ uri }) => saved(checkpoints, uri)),
    vscode.workspace.onDidSaveNotebookDocument(({ uri }) => saved(checkpoints, uri)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("bascule")) checkpoints.retry();
    }),
    userCommand(CommandId.restoreCheckpoint, log, () => new RestoreCommand(checkpoints).run()),
  );
  return checkpoints;
}

function saved(checkpoints: Checkpoints, uri: vscode.Uri): void {
  if (uri.scheme === "file") checkpoints.saved(uri.fsPath);
}

function whyOff(folders: readonly string[]): string {
  if (!setting("checkpoints.enabled")) return "the setting bascule.checkpoints.enabled is off";
  if (process.platform !== "linux") return "they need Linux";
  return folders.length ? "" : "no folder is open";
}

/**
 * Interpreters for the worker, without those of the workspace, which an agent could change.
 * Absolute paths, so that no program in the current directory is used.
 */
function pythons(): string[] {
  const given = setting("python");
  const searched = process.env.PATH ?? "";
  const found = PYTHONS.map((name) => which(name, searched) ?? "").filter((each) =>
    path.isAbsolute(each),
  );
  return [...new Set([...(given ? [given] : []), ...found])];
}

/** The store of a folder, in the user's state directory. All windows of the folder share it. */
function storeOf(folder: string): string {
  const given = setting("checkpoints.directory");
  if (given) return given;
  const { XDG_STATE_HOME: set = "" } = process.env;
  const state = path.isAbsolute(set) ? set : path.join(os.homedir(), ".local/state");
  const real = fs.realpathSync(folder);
  const name = path.basename(real).replace(/[^\w.-]/g, "_");
  const hash = createHash("sha256").update(real).digest("hex").slice(0, 16);
  return path.join(state, "bascule/checkpoints", `${name.slice(0, 40)}-${hash}`);
}
