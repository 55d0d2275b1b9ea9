/** Actions on the window itself: open a file, show a diff, ask the user, run a VS Code command. */
import { stat } from "node:fs/promises";
import * as vscode from "vscode";
import { Failure, messageOf } from "../common/failure";
import { commandsRunBy } from "../common/nested_commands";
import { matchesPattern } from "../common/patterns";
import { abortable } from "../common/abortable";
import { withoutLinks } from "../consent/visible_text";
import { CONSENT_COMMANDS } from "../manifest";
import { observe, type ArgsOf, type ExtrasOf, type ObservationBody } from "../protocol";
import { asJson, withValues } from "./command_values";
import { withPathErrors, type PathResolver } from "./paths";
import { vscodeValues } from "./vscode_values";
import type { VirtualDocuments } from "./virtual_documents";

export class WindowActions {
  constructor(
    private readonly resolver: PathResolver,
    private readonly virtualDocuments: VirtualDocuments,
    private readonly allowedCommands: () => string[],
    /** Waits until the editor shows all written text. */
    private readonly settled: () => Promise<void>,
  ) {}

  async openFile(args: ArgsOf<"open_file">, cwd: string): Promise<ObservationBody<"open_file">> {
    const { displayPath, real } = await this.resolver.find(args.path, cwd);
    const line = Math.max(0, (args.line ?? 1) - 1);
    const position = new vscode.Position(line, Math.max(0, (args.column ?? 1) - 1));
    await this.settled();
    await withPathErrors(displayPath, async () => {
      // VS Code's own error has no code, so check for a directory first.
      if ((await stat(real)).isDirectory()) throw Object.assign(new Error(), { code: "EISDIR" });
      const document = await vscode.workspace.openTextDocument(vscode.Uri.file(real));
      const editor = await vscode.window.showTextDocument(document, {
        preview: args.preview ?? true,
        preserveFocus: true,
      });
      if (args.line === null || args.line === undefined) return;
      editor.selection = new vscode.Selection(position, position);
      editor.revealRange(
        new vscode.Range(position, position),
        vscode.TextEditorRevealType.InCenterIfOutsideViewport,
      );
    });
    return observe("open_file", "", { path: displayPath });
  }

  async showDiff(args: ArgsOf<"show_diff">, cwd: string): Promise<ObservationBody<"show_diff">> {
    const { displayPath, real } = await this.resolver.find(args.path, cwd);
    const proposed = this.virtualDocuments.add(real, args.content);
    const title = args.title || `${vscode.workspace.asRelativePath(real)} (proposed)`;
    await vscode.commands.executeCommand("vscode.diff", vscode.Uri.file(real), proposed, title, {
      preserveFocus: true,
      preview: true,
    });
    return observe("show_diff", "", { path: displayPath, outcome: "shown" });
  }

  async askUser(
    args: ArgsOf<"ask_user">,
    signal: AbortSignal,
  ): Promise<ObservationBody<"ask_user">> {
    const source = new vscode.CancellationTokenSource();
    const cancel = (): void => source.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    try {
      const answer = await ask(args, source.token);
      return observe("ask_user", answer ?? "", {
        question: args.question,
        answered: answer !== undefined,
      });
    } finally {
      signal.removeEventListener("abort", cancel);
      source.dispose();
    }
  }

  /** A command cannot be interrupted: cancelling only ends the wait. */
  async command(
    args: ArgsOf<"vscode_command">,
    cwd: string,
    signal: AbortSignal,
  ): Promise<ObservationBody<"vscode_command">> {
    const { command, arguments: sent = [] } = args;
    for (const each of commandsRunBy(command, sent)) this.ensureAllowed(each);
    const types = vscodeValues((path) => this.resolver.absolute(path, cwd));
    const given = withValues(sent, types);
    await this.settled();
    let result: unknown;
    try {
      const work = Promise.resolve(vscode.commands.executeCommand(command, ...given));
      result = await abortable(work, signal);
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw new Failure("execution", `The command '${command}' failed: ${messageOf(error)}`);
    }
    return observe("vscode_command", "", {
      command,
      result: asJson(result, types) as NonNullable<ExtrasOf<"vscode_command">["result"]>,
    });
  }

  private ensureAllowed(command: string): void {
    if (CONSENT_COMMANDS.has(command))
      throw new Failure("consent.denied", "Only the user may answer questions and review changes");
    if (!this.allowedCommands().some((pattern) => matchesPattern(command, pattern)))
      throw new Failure(
        "consent.denied",
        `The user has not allowed agents to run the command '${command}' (bascule.allowedCommands)`,
      );
  }
}

function ask(
  args: ArgsOf<"ask_user">,
  token: vscode.CancellationToken,
): Thenable<string | undefined> {
  const { options = [], default: first = "" } = args;
  const question = withoutLinks(args.question);
  if (!options.length)
    return vscode.window.showInputBox(
      { prompt: question, value: first, ignoreFocusOut: true },
      token,
    );
  const ordered = [...options].sort((a, b) => Number(b === first) - Number(a === first));
  return vscode.window.showQuickPick(ordered, { title: question, ignoreFocusOut: true }, token);
}
