/** Shows the marking of running nets: after each place in the text, and in drawings. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { Emitter } from "../common/emitter";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";
import type { NetDrawing } from "./cli_output";
import { Marking, shownTokens } from "./marking";
import { Trace } from "./trace";
import type { NetDrawings } from "./net_drawings";

/** Minimum milliseconds between two updates of a running net. */
const FRAME_MS = 50;
const MAX_TOKENS_TEXT = 60;

/** A run whose trace is followed. Call `end` when it has ended. */
export interface FollowedRun {
  readonly file: string;
  end(): Promise<void>;
}

/** The marking shown for one net. It stays after the run ended, until the text changes. */
class LiveMarking {
  readonly marking = new Marking();
  view: NetDrawing | undefined;
  isOver = false;
  watching: Disposable | undefined;
  timer: NodeJS.Timeout | undefined;
}

export class LiveMarkings implements Disposable {
  private readonly owned = new Disposables();
  private readonly shown = new Map<string, LiveMarking>();
  private readonly traces = new Set<Trace>();
  private readonly changed: Emitter<string>;
  private readonly style = this.owned.add(
    vscode.window.createTextEditorDecorationType({
      after: { margin: "0 0 0 2em", color: new vscode.ThemeColor("charts.blue") },
      rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
    }),
  );

  constructor(
    private readonly views: NetDrawings,
    private readonly log: Log,
  ) {
    this.changed = new Emitter((error) => log.error(messageOf(error)));
    this.owned.add(vscode.window.onDidChangeVisibleTextEditors(() => this.showAll()));
    this.owned.add(
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        const live = this.shown.get(document.uri.toString());
        if (live?.isOver && contentChanges.length) this.drop(document.uri.toString());
      }),
    );
  }

  /** The marking shown for a net; undefined if none. */
  markingOf(uri: vscode.Uri): Marking | undefined {
    const marking = this.shown.get(uri.toString())?.marking;
    return marking?.hasBegun ? marking : undefined;
  }

  /** Reports the URI of a net whose marking changed. */
  onChanged(listener: (uri: string) => void): Disposable {
    return this.changed.listen(listener);
  }

  /** Prepares to follow a new run, which must write its trace to `file`. Undefined on failure. */
  async follow(uri: vscode.Uri): Promise<FollowedRun | undefined> {
    try {
      return await this.begin(await vscode.workspace.openTextDocument(uri));
    } catch (error) {
      this.log.warn(`the marking of ${uri.fsPath} is not shown: ${messageOf(error)}`);
      return undefined;
    }
  }

  dispose(): void {
    for (const key of [...this.shown.keys()]) this.drop(key);
    for (const trace of this.traces) void trace.end();
    this.owned.dispose();
  }

  private async begin(document: vscode.TextDocument): Promise<FollowedRun> {
    const key = document.uri.toString();
    const live = new LiveMarking();
    const onError = (error: unknown): void =>
      this.log.warn(`the trace of ${document.uri.fsPath}: ${messageOf(error)}`);
    const trace = await Trace.begin((lines) => {
      for (const line of lines) live.marking.add(line);
      if (this.shown.get(key) === live) this.showSoon(key, live);
    }, onError);
    this.traces.add(trace);
    this.drop(key);
    this.shown.set(key, live);
    live.watching = this.views.watch(document, (view) => {
      live.view = view ?? live.view;
      this.show(key);
    });
    const end = async (): Promise<void> => {
      if (!this.traces.delete(trace)) return;
      await trace.end().catch(onError);
      live.isOver = true;
    };
    return { file: trace.file, end };
  }

  private drop(key: string): void {
    const live = this.shown.get(key);
    if (!live) return;
    live.watching?.dispose();
    clearTimeout(live.timer);
    this.shown.delete(key);
    this.show(key);
  }

  private showSoon(key: string, live: LiveMarking): void {
    live.timer ??= setTimeout(() => {
      live.timer = undefined;
      this.show(key);
    }, FRAME_MS);
  }

  private showAll(): void {
    for (const key of this.shown.keys()) this.show(key);
  }

  private show(key: string): void {
    this.changed.fire(key);
    const live = this.shown.get(key);
    for (const editor of vscode.window.visibleTextEditors)
      if (editor.document.uri.toString() === key)
        editor.setDecorations(this.style, live ? decorations(live, editor.document) : []);
  }
}

function decorations(
  { view, marking }: LiveMarking,
  document: vscode.TextDocument,
): vscode.DecorationOptions[] {
  return [...(view?.places ?? [])].flatMap(([place, line]) => {
    const tokens = marking.places.get(place) ?? [];
    if (!tokens.length || line >= document.lineCount) return [];
    const contentText = shownTokens(tokens, MAX_TOKENS_TEXT);
    const hoverMessage = new vscode.MarkdownString().appendCodeblock(
      tokens
        .map((token) => JSON.stringify(token))
        .slice(0, 100)
        .join("\n"),
      "json",
    );
    return [
      {
        range: document.lineAt(line).range,
        renderOptions: { after: { contentText } },
        hoverMessage,
      },
    ];
  });
}
