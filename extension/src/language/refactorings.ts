/** Actions that change code with the language features of VS Code: renames, fixes, formatters. */
import * as vscode from "vscode";
import type { ResolvedPath } from "../actions/paths";
import { Failure } from "../common/failure";
import { CONSENT_COMMANDS } from "../manifest";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { CodeActionFinder, FoundCodeAction } from "./code_actions";
import { changedLines, diffOf, type ChangedText, type CodeChanges } from "./code_changes";
import { execute } from "./language_command";
import { symbolRange, type LanguageDocuments } from "./language_documents";
import {
  waitNote,
  type LanguageServers,
  type WaitLimit,
  type ServerAnswer,
} from "./language_servers";
import { shortLine } from "./lookup_items";

/** Changed lines that the text of an answer shows, and characters of its diff. */
const MAX_LINES = 50;
const MAX_LISTED = 100;
const MAX_DIFF_CHARS = 100_000;
const RENAME_BOX = "editor.action.rename";

type Changed = ObservationBody<"code_changed">;

export class Refactorings {
  constructor(
    private readonly documents: LanguageDocuments,
    private readonly servers: LanguageServers,
    private readonly codeActions: CodeActionFinder,
    private readonly changes: CodeChanges,
    /** Runs a command that VS Code's extensions attached to a code action. */
    private readonly recordDuring: <T>(work: () => Promise<T>) => Promise<T>,
  ) {}

  async rename(args: ArgsOf<"rename_symbol">, cwd: string, waitLimit: WaitLimit): Promise<Changed> {
    const { symbol, new_name: name } = args;
    if (!name.trim() || /[\r\n]/.test(name))
      throw new Failure("edit.invalid", "`new_name` is empty or has several lines");
    if (name === symbol) throw new Failure("edit.invalid", "`new_name` is the name it already has");
    const opened = await this.documents.open(args.path, cwd);
    const { document, target } = opened;
    const { start } = symbolRange(opened, args);
    const ask = async (): Promise<vscode.WorkspaceEdit[]> => {
      const command = "vscode.executeDocumentRenameProvider";
      const edit = await execute<vscode.WorkspaceEdit>(command, document.uri, start, name);
      return edit?.entries().length ? [edit] : [];
    };
    const answer = await this.servers.ask(document, ask, waitLimit, { isExact: true });
    const [edit] = answer.found;
    if (!edit)
      throw new Failure("execution", `VS Code cannot rename '${symbol}' in ${target.displayPath}`);
    if (answer.isUnsure)
      throw new Failure(
        "action.timed_out",
        "The language server is still starting, so a rename would miss files; nothing was changed",
      );
    const files = await this.changes.apply(edit, target, () => ensureWanted(waitLimit));
    return changed(`Renamed '${symbol}' to '${name}'`, files, answer);
  }

  async applyCodeAction(
    args: ArgsOf<"apply_code_action">,
    cwd: string,
    waitLimit: WaitLimit,
  ): Promise<Changed> {
    const opened = await this.documents.open(args.path, cwd);
    const listed = await this.servers.ask(
      opened.document,
      () => this.codeActions.find(opened, args, waitLimit),
      waitLimit,
    );
    let index = chosen(listed.found, args.title);
    let found = listed.found;
    // Only now an action is completed, which may take long. Its index may have changed.
    for (let complete = 0; complete <= index;) {
      complete = index + 1;
      found = await this.codeActions.find(opened, args, waitLimit, complete);
      index = chosen(found, args.title);
    }
    const action = found[index];
    if (!action) throw notOffered(args.title, found);
    const { files, note } = await this.perform(action, opened.target, waitLimit);
    return changed(`Applied '${args.title}'`, files, listed, note);
  }

  async format(args: ArgsOf<"format">, cwd: string, waitLimit: WaitLimit): Promise<Changed> {
    const { document, target } = await this.documents.open(args.path, cwd);
    const ask = (): Promise<vscode.TextEdit[] | undefined> =>
      execute("vscode.executeFormatDocumentProvider", document.uri, optionsFor(document));
    const answer = await this.servers.ask(document, ask, waitLimit);
    const edit = new vscode.WorkspaceEdit();
    edit.set(document.uri, answer.found);
    const files = answer.found.length
      ? await this.changes.apply(edit, target, () => ensureWanted(waitLimit))
      : [];
    const nothing = `${target.displayPath} is formatted already, or VS Code has no formatter for ${document.languageId}`;
    return changed(`Formatted ${target.displayPath}`, files, answer, "", nothing);
  }

  async organizeImports(
    args: ArgsOf<"organize_imports">,
    cwd: string,
    waitLimit: WaitLimit,
  ): Promise<Changed> {
    const opened = await this.documents.open(args.path, cwd);
    const { document, target } = opened;
    const query = vscode.CodeActionKind.SourceOrganizeImports.value;
    const place = { line: 1, end_line: document.lineCount, query };
    const answer = await this.servers.ask(
      document,
      () => this.codeActions.find(opened, place, waitLimit, 1),
      waitLimit,
    );
    const [found] = answer.found;
    if (!found)
      throw new Failure(
        "capability.missing",
        `VS Code cannot organize imports of ${document.languageId}: no extension offers it`,
      );
    const { files, note } = await this.perform(found, target, waitLimit);
    const nothing = `The imports of ${target.displayPath} are organized already`;
    return changed(`Organized the imports of ${target.displayPath}`, files, answer, note, nothing);
  }

  /** Applies the edits of a code action, then runs its command. */
  private async perform(
    found: FoundCodeAction,
    target: ResolvedPath,
    waitLimit: WaitLimit,
  ): Promise<{ files: ChangedText[]; note: string }> {
    const { edit, command, disabled } = asAction(found);
    if (disabled)
      throw new Failure("symbol.no_action", `'${found.title}' is not possible: ${disabled.reason}`);
    if (command && CONSENT_COMMANDS.has(command.command))
      throw new Failure("consent.denied", "Only the user may answer questions and review changes");
    const files = edit?.entries().length
      ? await this.changes.apply(edit, target, () => ensureWanted(waitLimit))
      : [];
    if (!command) return { files, note: "" };
    // After extracting something, TypeScript opens the box in which the user types its name.
    if (JSON.stringify(command.arguments ?? []).includes(RENAME_BOX))
      return { files, note: "VS Code chose a name; rename_symbol changes it" };
    if (!files.length) ensureWanted(waitLimit);
    const more = await this.changes.runAndSave(() =>
      this.recordDuring(async () => {
        await execute(command.command, ...((command.arguments ?? []) as unknown[]));
      }),
    );
    return { files: [...files, ...more], note: "" };
  }
}

function asAction(found: FoundCodeAction): vscode.CodeAction {
  return typeof found.command === "string"
    ? { title: found.title, command: found as vscode.Command }
    : (found as vscode.CodeAction);
}

/** The action with this title; of several, the preferred one. */
function chosen(found: readonly FoundCodeAction[], title: string): number {
  const preferred = found.findIndex((each) => each.title === title && asAction(each).isPreferred);
  return preferred >= 0 ? preferred : found.findIndex((each) => each.title === title);
}

function notOffered(title: string, found: readonly FoundCodeAction[]): Failure {
  const offered = found.map((each) => each.title).join("; ") || "nothing";
  return new Failure(
    "symbol.no_action",
    `VS Code offers no code action '${title}' there. It offers: ${offered}`,
  );
}

/** The editor's options: an open editor may have detected the file's indentation. */
function optionsFor(document: vscode.TextDocument): vscode.FormattingOptions {
  const editor = vscode.window.visibleTextEditors.find((each) => each.document === document);
  const settings = vscode.workspace.getConfiguration("editor", document);
  const { tabSize, insertSpaces } = editor?.options ?? {};
  return {
    tabSize: typeof tabSize === "number" ? tabSize : settings.get<number>("tabSize", 4),
    insertSpaces:
      typeof insertSpaces === "boolean"
        ? insertSpaces
        : settings.get<boolean>("insertSpaces", true),
  };
}

/** An action that was cancelled or is out of time must not change anything. */
function ensureWanted({ until, signal }: WaitLimit): void {
  if (signal.aborted) throw new Failure("action.cancelled", "The action was cancelled");
  if (performance.now() > until)
    throw new Failure("action.timed_out", "The language server took too long; nothing was changed");
}

function changed(
  done: string,
  files: readonly ChangedText[],
  answer: ServerAnswer<unknown>,
  more = "",
  nothing = "Nothing changed",
): Changed {
  const real = files.filter(({ before, after }) => before !== after);
  const listed = real.map((file) => ({ file, numbers: changedLines(file) }));
  const lines = listed.flatMap(({ file, numbers }) => linesOf(file, numbers));
  const diff = real.map(diffOf).join("\n");
  const left = lines.length - MAX_LINES;
  const content = [
    real.length
      ? `${done}: ${countText(lines.length, "line")} in ${countText(real.length, "file")}`
      : nothing,
    ...lines.slice(0, MAX_LINES),
    ...(left > 0 ? [`… and ${left} more changed lines`] : []),
  ].join("\n");
  const note = [more, waitNote(answer)].filter(Boolean).join("\n");
  const extras = {
    files: listed.map(({ file, numbers }) => ({
      path: file.target.displayPath,
      lines: numbers.slice(0, MAX_LISTED),
    })),
    diff: diff.slice(0, MAX_DIFF_CHARS),
    truncated: diff.length > MAX_DIFF_CHARS,
    waited: answer.waited,
  };
  return { ...observe("code_changed", content, extras), ...(note ? { note } : {}) };
}

function linesOf({ target, after }: ChangedText, numbers: readonly number[]): string[] {
  const texts = after.split(/\r?\n/);
  return numbers.map(
    (line) => `${target.displayPath}:${line}: ${shortLine(texts[line - 1] ?? "")}`,
  );
}

function countText(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
