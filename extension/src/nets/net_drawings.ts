/** The current drawing of each watched net, with the line numbers of its nodes. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { runNetCli, PAUSE_MS } from "./watch_nets";
import { readDrawing, type NetDrawing } from "./cli_output";
import { LatestTasks } from "./latest_tasks";
import type { NetCli } from "./net_cli";

/** Undefined while the text is not a valid net. */
type Listener = (view: NetDrawing | undefined) => void;

export class NetDrawings implements Disposable {
  private readonly latest = new LatestTasks();
  private readonly listeners = new Map<string, Set<Listener>>();
  private readonly known = new Map<string, NetDrawing | undefined>();
  private readonly watching: vscode.Disposable;

  constructor(
    private readonly program: NetCli,
    private readonly log: Log,
  ) {
    this.watching = vscode.workspace.onDidChangeTextDocument(({ document }) => {
      if (this.listeners.has(document.uri.toString())) this.redraw(document, PAUSE_MS);
    });
  }

  /** Calls `listener` with the drawing now and after each change, until disposed. */
  watch(document: vscode.TextDocument, listener: Listener): Disposable {
    const key = document.uri.toString();
    const all = this.listeners.get(key) ?? new Set<Listener>();
    this.listeners.set(key, all.add(listener));
    if (this.known.has(key)) listener(this.known.get(key));
    else if (all.size === 1) this.redraw(document, 0);
    return {
      dispose: () => {
        all.delete(listener);
        if (all.size || this.listeners.get(key) !== all) return;
        this.listeners.delete(key);
        this.known.delete(key);
        this.latest.cancel(key);
      },
    };
  }

  dispose(): void {
    this.watching.dispose();
    this.latest.dispose();
  }

  private redraw(document: vscode.TextDocument, delayMs: number): void {
    if (!vscode.workspace.isTrusted) return;
    const key = document.uri.toString();
    this.latest.begin(key, delayMs, async (signal) => {
      let view: NetDrawing | undefined;
      try {
        const what = ["show", "--format", "json"];
        const { status, output } = await runNetCli(this.program, what, document, signal);
        view = status === 0 ? readDrawing(output) : undefined;
      } catch (error) {
        if (!signal.aborted)
          this.log.warn(`${document.uri.fsPath} was not drawn: ${messageOf(error)}`);
      }
      if (signal.aborted) return;
      this.known.set(key, view);
      for (const listener of this.listeners.get(key) ?? []) listener(view);
    });
  }
}
