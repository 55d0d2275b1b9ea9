/** Opens the document that an action names, and finds a place in it. */
import { stat } from "node:fs/promises";
import * as vscode from "vscode";
import type { Documents } from "../actions/documents";
import { withPathErrors, type PathResolver, type ResolvedPath } from "../actions/paths";
import { Failure } from "../common/failure";
import { symbolInLine } from "./symbol_in_line";

/** How an action names a place. */
export interface NamedPlace {
  line?: number | null | undefined;
  symbol?: string | undefined;
  occurrence?: number | undefined;
  end_line?: number | null | undefined;
}

export interface OpenedDocument {
  target: ResolvedPath;
  document: vscode.TextDocument;
}

export class LanguageDocuments {
  constructor(
    private readonly resolver: PathResolver,
    private readonly documents: Documents,
  ) {}

  /**
   * Opens a file, and the files that agents wrote lately: servers learn about closed files by
   * watching the disk, which takes time.
   */
  async open(given: string | null | undefined, cwd: string): Promise<OpenedDocument> {
    if (!given) throw new Failure("path.invalid", "A `path` is needed: the file to look at");
    const target = await this.resolver.find(given, cwd);
    await this.openWritten();
    const document = await withPathErrors(target.displayPath, async () => {
      // VS Code's own errors have no codes.
      if ((await stat(target.real)).isDirectory())
        throw Object.assign(new Error(), { code: "EISDIR" });
      return vscode.workspace.openTextDocument(vscode.Uri.file(target.real));
    });
    return { target, document };
  }

  /** Opens the files that agents wrote lately, and waits until the editor has their text. */
  async openWritten(): Promise<vscode.TextDocument[]> {
    await this.documents.settled();
    const opening = this.documents.recentlyWritten.map(async (file) => {
      try {
        return await vscode.workspace.openTextDocument(vscode.Uri.file(file));
      } catch {
        return undefined; // the file was removed, or is not text
      }
    });
    return (await Promise.all(opening)).filter((each) => each !== undefined);
  }

  /** Whether an agent may read the file. */
  async mayRead(file: string): Promise<boolean> {
    try {
      await this.resolver.find(file, "/", { toRead: true });
      return true;
    } catch (error) {
      if (error instanceof Failure) return false;
      throw error;
    }
  }
}

/** The range of the named symbol. */
export function symbolRange({ document, target }: OpenedDocument, place: NamedPlace): vscode.Range {
  const { symbol = "", occurrence = 1 } = place;
  if (!symbol.trim())
    throw new Failure("symbol.not_found", "A `symbol` is needed: its text in the line");
  const { text, lineNumber } = lineOf({ document, target }, place.line);
  const name = { displayPath: target.displayPath, line: lineNumber + 1 };
  const { start, end } = symbolInLine(text, symbol, occurrence, name);
  return new vscode.Range(lineNumber, start, lineNumber, end);
}

/** The range of the named symbol; without a symbol, the range of whole lines. */
export function symbolOrLines(opened: OpenedDocument, place: NamedPlace): vscode.Range {
  if (place.symbol) return symbolRange(opened, place);
  const first = lineOf(opened, place.line);
  const last = lineOf(opened, place.end_line ?? place.line);
  if (last.lineNumber < first.lineNumber)
    throw new Failure("file.invalid_range", "`end_line` is before `line`");
  return new vscode.Range(
    first.lineNumber,
    first.firstNonWhitespaceCharacterIndex,
    last.lineNumber,
    last.text.length,
  );
}

function lineOf({ document, target }: OpenedDocument, line?: number | null): vscode.TextLine {
  const count = document.lineCount;
  if (typeof line !== "number" || line < 1 || line > count)
    throw new Failure(
      "file.invalid_range",
      `${target.displayPath} has lines 1 to ${count}; \`line\` is ${line ?? "missing"}`,
    );
  return document.lineAt(line - 1);
}
