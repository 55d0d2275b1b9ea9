/**
 * Shows open questions in the window and takes the user's answers. A notification announces a
 * question; a read-only document shows the whole request as plain text, with the answers above it.
 */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import type { Question, Questions } from "../consent/questions";
import { shortened, withoutLinks, visible } from "../consent/visible_text";
import { CommandId, QUESTION_SCHEME } from "../manifest";

/**
 * Milliseconds that a question must be visible before a click is accepted: an earlier click may
 * have been meant for something else.
 */
const MIN_SEEN_MS = 500;
const MAX_NAME_CHARS = 40;
const GONE = "This question is no longer open.\n";

interface ShownQuestion {
  /** The document's URI. It contains a secret, so that an answer requires the shown document. */
  uri: vscode.Uri;
  closeNotice: () => void;
  /** Time at which the document became visible; undefined while it is hidden. */
  seenSince: number | undefined;
}

export class QuestionsView
  implements vscode.TextDocumentContentProvider, vscode.CodeLensProvider, Disposable
{
  private readonly owned = new Disposables();
  private readonly shown = new Map<string, ShownQuestion>();
  private readonly changing = this.owned.add(new vscode.EventEmitter<void>());

  readonly onDidChangeCodeLenses = this.changing.event;

  constructor(
    private readonly questions: Questions,
    private readonly onCount: (count: number) => void,
  ) {
    const { window, workspace, languages, commands } = vscode;
    const add = (each: Disposable): Disposable => this.owned.add(each);
    add(workspace.registerTextDocumentContentProvider(QUESTION_SCHEME, this));
    add(languages.registerCodeLensProvider({ scheme: QUESTION_SCHEME }, this));
    add(questions.onChanged.listen(() => this.update()));
    add(window.onDidChangeVisibleTextEditors((editors) => this.seen(editors)));
    add(commands.registerCommand(CommandId.showQuestions, (id?: unknown) => this.show(id)));
    const answer = (uri: unknown, given: unknown): void => this.answer(uri, given);
    add(commands.registerCommand(CommandId.answerQuestion, answer));
    add(commands.registerCommand(CommandId.allowOnce, (uri: unknown) => answer(uri, "once")));
    add(commands.registerCommand(CommandId.denyQuestion, (uri: unknown) => answer(uri, "deny")));
    void this.closeTabs(() => true); // of questions from an earlier extension host
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.at(uri)?.text ?? GONE;
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const question = this.canAnswer(document.uri) ? this.at(document.uri) : undefined;
    const top = new vscode.Range(0, 0, 0, 0);
    return (question?.choices ?? []).map(
      ([title, answer]) =>
        new vscode.CodeLens(top, {
          title: `$(${answer === "deny" ? "circle-slash" : "check"}) ${title}`,
          command: CommandId.answerQuestion,
          arguments: [document.uri, answer],
        }),
    );
  }

  dispose(): void {
    for (const { closeNotice } of this.shown.values()) closeNotice();
    this.owned.dispose();
  }

  private update(): void {
    const open = this.questions.list();
    for (const question of open) if (!this.shown.has(question.id)) this.announce(question);
    const gone = [...this.shown].filter(([id]) => !this.questions.find(id));
    for (const [id, { closeNotice }] of gone) {
      closeNotice();
      this.shown.delete(id);
    }
    const uris = new Set(gone.map(([, { uri }]) => uri.toString()));
    if (uris.size) void this.closeTabs((uri) => uris.has(uri.toString()));
    this.onCount(open.length);
  }

  /**
   * Uses a progress notification, because a message with buttons cannot be closed by the extension.
   */
  private announce({ id, number, request }: Question): void {
    const secret = randomBytes(16).toString("hex");
    const uri = vscode.Uri.from({
      scheme: QUESTION_SCHEME,
      path: `/Question ${number}`,
      query: secret,
    });
    const args = encodeURIComponent(JSON.stringify([id]));
    const who = withoutLinks(shortened(request.requester.name, MAX_NAME_CHARS));
    // The link comes first, so that a long name cannot push it out of sight.
    const link = `[Show the request](command:${CommandId.showQuestions}?${args})`;
    const title = `${link}: ${who} asks for your consent`;
    const progress = { location: vscode.ProgressLocation.Notification, title };
    let closeNotice!: () => void;
    const closed = new Promise<void>((resolve) => (closeNotice = resolve));
    void vscode.window.withProgress(progress, () => closed);
    this.shown.set(id, { uri, closeNotice, seenSince: undefined });
  }

  /** Opens the named question, or lets the user pick one. */
  private async show(id: unknown): Promise<void> {
    const open = this.questions.list();
    const named = open.find((each) => each.id === id);
    const question = named ?? (open.length > 1 ? await pick(open) : open[0]);
    const uri = question && this.shown.get(question.id)?.uri;
    if (!uri) return void vscode.window.setStatusBarMessage("Bascule: no question is open.", 5000);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { preview: false });
  }

  private answer(uri: unknown, answer: unknown): void {
    if (!(uri instanceof vscode.Uri) || typeof answer !== "string" || !this.canAnswer(uri)) return;
    const id = this.entry(uri)?.[0];
    if (id) this.questions.answer(id, answer, "window");
  }

  private entry(uri: vscode.Uri): [string, ShownQuestion] | undefined {
    return [...this.shown].find(([, each]) => each.uri.toString() === uri.toString());
  }

  private at(uri: vscode.Uri): Question | undefined {
    const entry = this.entry(uri);
    return entry && this.questions.find(entry[0]);
  }

  private canAnswer(uri: vscode.Uri): boolean {
    return Date.now() - (this.entry(uri)?.[1].seenSince ?? Infinity) >= MIN_SEEN_MS;
  }

  private seen(editors: readonly vscode.TextEditor[]): void {
    const visible = new Set(editors.map(({ document }) => document.uri.toString()));
    for (const each of this.shown.values()) {
      if (!visible.has(each.uri.toString())) each.seenSince = undefined;
      else if (each.seenSince === undefined) {
        each.seenSince = Date.now();
        setTimeout(() => this.changing.fire(), MIN_SEEN_MS + 1);
      }
    }
  }

  private async closeTabs(isMeant: (uri: vscode.Uri) => boolean): Promise<void> {
    const tabs = vscode.window.tabGroups.all
      .flatMap(({ tabs }) => tabs)
      .filter(
        ({ input }) =>
          input instanceof vscode.TabInputText &&
          input.uri.scheme === QUESTION_SCHEME &&
          isMeant(input.uri),
      );
    if (tabs.length) await vscode.window.tabGroups.close(tabs, true);
  }
}

async function pick(open: readonly Question[]): Promise<Question | undefined> {
  const items = open.map((question) => ({
    label: visible(question.request.requester.name),
    description: question.summary,
    question,
  }));
  const options = { placeHolder: "Questions waiting for your answer" };
  return (await vscode.window.showQuickPick(items, options))?.question;
}

/** Asks the user for the input of a cell; undefined if they cancel. */
export async function askForInput(question: string): Promise<string | undefined> {
  return vscode.window.showInputBox({
    prompt: withoutLinks(question) || "The cell asks for input",
    ignoreFocusOut: true,
  });
}
