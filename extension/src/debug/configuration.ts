/** Debug configurations of nets. */
import * as path from "node:path";
import * as vscode from "vscode";
import { Failure, messageOf } from "../common/failure";
import { isNet } from "../common/nets";
import { DEBUG_TYPE } from "../manifest";
import { ensureTrusted, savedNet } from "../nets/selected_net";
import type { FollowedRun, LiveMarkings } from "../nets/live_markings";

/** The default configuration for a net. */
export function sessionOf(uri: vscode.Uri): vscode.DebugConfiguration {
  return {
    type: DEBUG_TYPE,
    request: "launch",
    name: path.basename(uri.fsPath),
    program: uri.fsPath,
    // Show the net's output: by default VS Code opens the console for the first session only.
    internalConsoleOptions: "openOnSessionStart",
  };
}

/** Completes configurations. Adds a `trace` file if there is none, to show the marking live. */
export class DebugConfigurations implements vscode.DebugConfigurationProvider, vscode.Disposable {
  private readonly followed = new Map<string, FollowedRun>();
  private readonly watching = vscode.debug.onDidTerminateDebugSession(({ configuration }) => {
    const file = configuration["trace"] as unknown;
    if (typeof file === "string") this.end(file);
  });

  constructor(private readonly live: LiveMarkings) {}

  dispose(): void {
    this.watching.dispose();
    for (const file of [...this.followed.keys()]) this.end(file);
  }

  provideDebugConfigurations(): vscode.DebugConfiguration[] {
    return [{ type: DEBUG_TYPE, request: "launch", name: "Debug Net", program: "${file}" }];
  }

  /** Without a configuration, debugs the net in the active editor. */
  resolveDebugConfiguration(
    _folder: vscode.WorkspaceFolder | undefined,
    given: vscode.DebugConfiguration,
  ): vscode.DebugConfiguration | undefined {
    if (given.type) return given;
    const uri = vscode.window.activeTextEditor?.document.uri;
    return uri && isNet(uri.path) ? sessionOf(uri) : undefined;
  }

  async resolveDebugConfigurationWithSubstitutedVariables(
    folder: vscode.WorkspaceFolder | undefined,
    given: vscode.DebugConfiguration,
  ): Promise<vscode.DebugConfiguration | undefined> {
    try {
      ensureTrusted();
      const uri = programOf(given, folder);
      await savedNet(uri);
      const home = vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath;
      const cwd = home ?? path.dirname(uri.fsPath);
      return { cwd, ...given, program: uri.fsPath, ...(await this.tracing(uri, given)) };
    } catch (error) {
      void vscode.window.showErrorMessage(`Bascule: ${messageOf(error)}`);
      return undefined;
    }
  }

  private async tracing(
    uri: vscode.Uri,
    given: vscode.DebugConfiguration,
  ): Promise<{ trace?: string }> {
    if (given["trace"]) return {};
    const followed = await this.live.follow(uri);
    if (!followed) return {};
    this.followed.set(followed.file, followed);
    return { trace: followed.file };
  }

  private end(file: string): void {
    void this.followed.get(file)?.end();
    this.followed.delete(file);
  }
}

function programOf(
  given: vscode.DebugConfiguration,
  folder: vscode.WorkspaceFolder | undefined,
): vscode.Uri {
  const program = given["program"] as unknown;
  if (typeof program !== "string" || !program)
    throw new Failure("net.none", "The launch configuration names no 'program', the net to debug");
  const cwd = (given["cwd"] as unknown) ?? folder?.uri.fsPath;
  return vscode.Uri.file(typeof cwd === "string" ? path.resolve(cwd, program) : program);
}
