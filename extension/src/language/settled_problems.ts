/** Knows when the problems of a document belong to its current text. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { pause, type WaitLimit } from "./language_servers";
import { isTypeScript, typeScriptProblems, type TypeScriptProblem } from "./typescript_server";

/** Milliseconds without a change after which the problems of most languages are complete. */
const QUIET_MS = 2000;

export interface SettledProblems {
  isSettled: boolean;
  /** TypeScript's problems of the current text; undefined if the window's list has them all. */
  own?: TypeScriptProblem[];
}

export class ProblemWatch implements Disposable {
  /** When the text or the problems of a file last changed, by the clock of `performance.now()`. */
  private readonly changed = new Map<string, number>();
  private readonly disposables = new Disposables();

  constructor() {
    const { workspace, languages } = vscode;
    const note = (uri: vscode.Uri): void => {
      this.changed.set(uri.toString(), performance.now());
    };
    this.disposables.add(workspace.onDidOpenTextDocument(({ uri }) => note(uri)));
    this.disposables.add(workspace.onDidChangeTextDocument(({ document }) => note(document.uri)));
    this.disposables.add(languages.onDidChangeDiagnostics(({ uris }) => uris.forEach(note)));
    this.disposables.add(
      workspace.onDidCloseTextDocument(({ uri }) => this.changed.delete(uri.toString())),
    );
  }

  dispose(): void {
    this.disposables.dispose();
  }

  /** Waits until the problems belong to the document's text, at most until `waitLimit`. */
  async settle(document: vscode.TextDocument, waitLimit: WaitLimit): Promise<SettledProblems> {
    const own = await this.own(document, waitLimit);
    if (own === "busy") return { isSettled: false };
    if (own !== "absent") return { isSettled: true, own };
    return { isSettled: await this.quiet(document.uri, waitLimit) };
  }

  /** The problems that TypeScript's server reports. "busy" if it does not answer in time. */
  async own(
    document: vscode.TextDocument,
    waitLimit: WaitLimit,
  ): Promise<TypeScriptProblem[] | "busy" | "absent"> {
    if (!isTypeScript(document)) return "absent";
    await activateTypeScript();
    for (;;) {
      const remainingMs = Math.max(0, waitLimit.until - performance.now());
      const found = await Promise.race([typeScriptProblems(document), busyAfter(remainingMs)]);
      if (found !== "busy" || !(await pause(waitLimit))) return found;
    }
  }

  /** Waits until nothing changed for a while. */
  private async quiet(uri: vscode.Uri, waitLimit: WaitLimit): Promise<boolean> {
    for (;;) {
      const rest = (this.changed.get(uri.toString()) ?? 0) + QUIET_MS - performance.now();
      if (rest <= 0) return true;
      if (!(await pause(waitLimit, rest))) return false;
    }
  }
}

async function activateTypeScript(): Promise<void> {
  await vscode.extensions.getExtension("vscode.typescript-language-features")?.activate();
}

async function busyAfter(milliseconds: number): Promise<"busy"> {
  return new Promise((resolve) => {
    setTimeout(() => resolve("busy"), milliseconds).unref();
  });
}
