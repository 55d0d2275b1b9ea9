/** Read-only editor documents without a file: proposals and earlier versions of files. */
import * as path from "node:path";
import * as vscode from "vscode";

export const VIRTUAL_SCHEME = "bascule-text";
const MAX_DOCUMENTS = 200;

export class VirtualDocuments implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private count = 0;

  /** Adds a text and returns its URI. The URI ends with the name of `file`. */
  add(file: string, text: string): vscode.Uri {
    this.count += 1;
    const uri = vscode.Uri.from({
      scheme: VIRTUAL_SCHEME,
      path: `/${this.count}/${path.basename(file)}`,
    });
    this.texts.set(uri.toString(), text);
    const oldest = this.texts.keys().next().value;
    if (this.texts.size > MAX_DOCUMENTS && oldest !== undefined) this.texts.delete(oldest);
    return uri;
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "(no longer kept)";
  }
}
