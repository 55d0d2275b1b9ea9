/** Webview panels that show the drawing of a net, updated while the user types and the net runs. */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { drawingPage, type FromPage, type ToPage } from "./drawing_page";
import type { NetDrawing } from "./cli_output";
import type { LiveMarkings } from "./live_markings";
import { shownTokens } from "./marking";
import type { NetDrawings } from "./net_drawings";

/** Maximum characters of tokens shown at a place. */
const MAX_TOKENS_TEXT = 16;

export class DrawingPanels implements Disposable {
  private readonly open = new Map<string, DrawingPanel>();

  constructor(
    private readonly views: NetDrawings,
    private readonly live: LiveMarkings,
  ) {}

  async show(uri: vscode.Uri): Promise<void> {
    const key = uri.toString();
    const known = this.open.get(key);
    if (known) return known.reveal();
    const document = await vscode.workspace.openTextDocument(uri);
    const drawing = new DrawingPanel(document, this.views, this.live, () => this.open.delete(key));
    this.open.set(key, drawing);
  }

  dispose(): void {
    for (const each of [...this.open.values()]) each.dispose();
  }
}

class DrawingPanel implements Disposable {
  private readonly owned = new Disposables();
  private readonly panel: vscode.WebviewPanel;
  private view: NetDrawing | undefined;
  private isStale = false;

  constructor(
    private readonly document: vscode.TextDocument,
    views: NetDrawings,
    private readonly live: LiveMarkings,
    onClosed: () => void,
  ) {
    const name = vscode.workspace.asRelativePath(document.uri);
    this.panel = vscode.window.createWebviewPanel(
      "bascule.net",
      `Net ${name}`,
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { enableScripts: true, localResourceRoots: [] },
    );
    this.panel.onDidDispose(() => {
      this.owned.dispose();
      onClosed();
    });
    this.panel.webview.onDidReceiveMessage((message: FromPage) => this.receive(message));
    this.panel.webview.html = drawingPage(randomBytes(16).toString("base64url"));
    this.owned.add(views.watch(document, (view) => this.drawn(view)));
    this.owned.add(
      live.onChanged((uri) => {
        if (uri === document.uri.toString()) this.send({ marking: this.marking() });
      }),
    );
  }

  reveal(): void {
    this.panel.reveal(undefined, true);
  }

  dispose(): void {
    this.panel.dispose();
  }

  private drawn(view: NetDrawing | undefined): void {
    this.view = view ?? this.view;
    this.isStale = !view;
    this.send(view ? { svg: view.svg, isStale: false } : { isStale: true });
  }

  private receive({ ready, reveal }: FromPage): void {
    // A hidden page is reloaded when shown again, so send everything.
    if (ready && this.view)
      this.send({ svg: this.view.svg, isStale: this.isStale, marking: this.marking() });
    else if (ready) this.send({ isStale: this.isStale });
    if (reveal !== undefined) void this.showLine(reveal);
  }

  private async showLine(node: string): Promise<void> {
    const line = this.view?.places.get(node) ?? this.view?.transitions.get(node);
    if (line === undefined) return;
    const shown = vscode.window.visibleTextEditors.find(
      ({ document }) => document === this.document,
    );
    const viewColumn = shown?.viewColumn ?? vscode.ViewColumn.One;
    const selection = new vscode.Range(line, 0, line, 0);
    await vscode.window.showTextDocument(this.document, { viewColumn, selection });
  }

  private marking(): Exclude<ToPage["marking"], undefined> {
    const marking = this.live.markingOf(this.document.uri);
    if (!marking) return null;
    const shown = [...marking.places].map(([id, some]) => [id, shownTokens(some, MAX_TOKENS_TEXT)]);
    return { tokens: Object.fromEntries(shown) as Record<string, string>, fired: marking.fired };
  }

  /** A page that is not loaded yet asks for the state when it is ready. */
  private send(message: ToPage): void {
    void this.panel.webview.postMessage(message);
  }
}
