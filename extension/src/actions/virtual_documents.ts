/** Texts that are in no file (a proposal, what a file held before), shown read-only in the editor. */
import * as path from "node:path";
import * as vscode from "vscode";

export const VIRTUAL_SCHEME = "bascule-text";
const MOST = 200;

export class VirtualDocuments implements vscode.TextDocumentContentProvider {
  private readonly texts = new Map<string, string>();
  private count = 0;

  /** An address under which the text is shown, named like the file it belongs to. */
  add(file: string, text: string): vscode.Uri {
    this.count += 1;
    const uri = vscode.Uri.from({
      scheme: VIRTUAL_SCHEME,
      path: `/${this.count}/${path.basename(file)}`,
    });
    this.texts.set(uri.toString(), text);
    const oldest = this.texts.keys().next().value;
    if (this.texts.size > MOST && oldest !== undefined) this.texts.delete(oldest);
    return uri;
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? "(no longer kept)";
  }
}
