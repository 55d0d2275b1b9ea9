/** Language features of the editor: problems, symbols and the user's selection. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import type { LanguageDocuments } from "../language/language_documents";
import type { LanguageServers, WaitLimit } from "../language/language_servers";
import { ProblemWatch } from "../language/settled_problems";
import { isFromTypeScript, type TypeScriptProblem } from "../language/typescript_server";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import { withPathErrors, type PathResolver } from "./paths";

const SEVERITIES = ["error", "warning", "information", "hint"] as const;
/** Milliseconds to wait for the first diagnostics of a file. */
const FIRST_DIAGNOSTICS_MS = 3000;
const NOT_SETTLED =
  "The language server was not done in time; these problems may belong to an older text. Ask again";
const NOT_CHECKED =
  "No extension has reported problems of this file, and it is in no tab. Some language servers check only files in tabs; open_file shows it in one";

export class LanguageFeatures implements Disposable {
  /** Files whose first diagnostics arrived, or for which the wait is over. */
  private readonly filesWithDiagnostics = new Set<string>();
  /** Files whose diagnostics an extension has set since the file was opened. */
  private readonly checkedFiles = new Set<string>();
  private readonly disposables = new Disposables();
  private readonly watch = this.disposables.add(new ProblemWatch());

  /** `settled` resolves when the editor shows all written text. */
  constructor(
    private readonly resolver: PathResolver,
    private readonly documents: LanguageDocuments,
    private readonly servers: LanguageServers,
    private readonly settled: () => Promise<void>,
  ) {
    this.disposables.add(
      vscode.languages.onDidChangeDiagnostics(({ uris }) => {
        for (const each of uris) {
          this.filesWithDiagnostics.add(each.toString());
          this.checkedFiles.add(each.toString());
        }
      }),
    );
    this.disposables.add(
      vscode.workspace.onDidCloseTextDocument(({ uri }) => {
        this.filesWithDiagnostics.delete(uri.toString());
        this.checkedFiles.delete(uri.toString());
      }),
    );
  }

  dispose(): void {
    this.disposables.dispose();
  }

  async diagnostics(
    args: ArgsOf<"diagnostics">,
    cwd: string,
    waitLimit: WaitLimit,
  ): Promise<ObservationBody<"diagnostics">> {
    await this.settled();
    const { limit = 200, severity = "hint", settle = false } = args;
    const least = SEVERITIES.indexOf(severity);
    const own: OwnProblems = new Map();
    const isSettled = settle ? await this.settle(args.path, cwd, waitLimit, own) : undefined;
    const found = args.path
      ? await this.problemsOf(args.path, cwd, waitLimit, own)
      : vscode.languages.getDiagnostics();
    const all = withOwn(found, own).filter((item) => SEVERITIES.indexOf(item.severity) <= least);
    const items = all.slice(0, limit);
    const lines = items.map(
      (item) => `${item.path}:${item.line}:${item.column}: ${item.severity}: ${item.message}`,
    );
    const content = lines.length ? lines.join("\n") : "No problems";
    const isChecked = args.path === null || args.path === undefined || this.isChecked(found, own);
    const settledNow = isSettled === undefined ? null : isSettled && isChecked;
    const extras = { items, truncated: all.length > limit, settled: settledNow };
    const seen = observe("diagnostics", content, extras);
    if (!isChecked) return { ...seen, note: NOT_CHECKED };
    return isSettled === false ? { ...seen, note: NOT_SETTLED } : seen;
  }

  async symbols(args: ArgsOf<"symbols">, cwd: string): Promise<ObservationBody<"symbols">> {
    await this.settled();
    const { limit = 200, query = "" } = args;
    const all = args.path ? await this.symbolsOf(args.path, query, cwd) : await symbolsNamed(query);
    const items = all.slice(0, limit);
    const lines = items.map((item) => `${item.path}:${item.line}: ${item.kind} ${item.name}`);
    const content = lines.length ? lines.join("\n") : "No symbols";
    return observe("symbols", content, { items, truncated: all.length > limit });
  }

  /** Lines and columns count from 1. */
  selection(): ObservationBody<"selection"> {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return observe("selection", "", { path: null });
    const { start, end } = editor.selection;
    return observe("selection", editor.document.getText(editor.selection), {
      path: editor.document.uri.scheme === "file" ? editor.document.uri.fsPath : null,
      start_line: start.line + 1,
      start_column: start.character + 1,
      end_line: end.line + 1,
      end_column: end.character + 1,
    });
  }

  /** Whether the window's problems of the file are known, rather than never looked for. */
  private isChecked(
    [file]: readonly [vscode.Uri, readonly vscode.Diagnostic[]][],
    own: OwnProblems,
  ): boolean {
    if (!file) return true;
    const [uri, problems] = file;
    const isReported = problems.length > 0 || own.has(uri.fsPath);
    return isReported || this.checkedFiles.has(uri.toString()) || isInTab(uri);
  }

  /** Waits for the file, or for all files that agents changed. */
  private async settle(
    path: string | null | undefined,
    cwd: string,
    waitLimit: WaitLimit,
    own: OwnProblems,
  ): Promise<boolean> {
    const documents = path
      ? [(await this.documents.open(path, cwd)).document]
      : await this.documents.openWritten();
    const settled = documents.map(async (document) => {
      await this.servers.waitUntilAlive(document, waitLimit);
      const found = await this.watch.settle(document, waitLimit);
      if (found.own) own.set(document.uri.fsPath, found.own);
      return found.isSettled;
    });
    return (await Promise.all(settled)).every(Boolean);
  }

  private async problemsOf(
    given: string,
    cwd: string,
    waitLimit: WaitLimit,
    own: OwnProblems,
  ): Promise<[vscode.Uri, readonly vscode.Diagnostic[]][]> {
    const { displayPath, real } = await this.resolver.find(given, cwd);
    const uri = vscode.Uri.file(real);
    const open = async (): Promise<vscode.TextDocument> => vscode.workspace.openTextDocument(uri);
    const document = await withPathErrors(displayPath, open);
    if (own.has(real)) return [[uri, vscode.languages.getDiagnostics(uri)]];
    // VS Code shows problems of TypeScript only for files that are open in tabs.
    const soon = Math.min(waitLimit.until, performance.now() + FIRST_DIAGNOSTICS_MS);
    const found = await this.watch.own(document, { ...waitLimit, until: soon });
    if (typeof found !== "string") {
      own.set(real, found);
      return [[uri, vscode.languages.getDiagnostics(uri)]];
    }
    // Wait for an open file too: opening it may have just started its language server.
    if (!this.filesWithDiagnostics.has(uri.toString())) await waitForFirstDiagnostics(uri);
    this.filesWithDiagnostics.add(uri.toString());
    return [[uri, vscode.languages.getDiagnostics(uri)]];
  }

  private async symbolsOf(given: string, query: string, cwd: string): Promise<SymbolItem[]> {
    const { displayPath, real } = await this.resolver.find(given, cwd);
    const uri = vscode.Uri.file(real);
    await withPathErrors(displayPath, async () => vscode.workspace.openTextDocument(uri));
    const found = await vscode.commands.executeCommand<
      (vscode.DocumentSymbol | vscode.SymbolInformation)[] | undefined
    >("vscode.executeDocumentSymbolProvider", uri);
    const wanted = query.toLowerCase();
    return (found ?? [])
      .flatMap((symbol) => flatten(symbol, real, ""))
      .filter((item) => item.name.toLowerCase().includes(wanted));
  }
}

/** Problems that TypeScript's server reported itself, by file. */
type OwnProblems = Map<string, TypeScriptProblem[]>;

interface ProblemItem {
  [name: string]: unknown;
  path: string;
  line: number;
  column: number;
  severity: (typeof SEVERITIES)[number];
  message: string;
}

interface SymbolItem {
  [name: string]: unknown;
  name: string;
  kind: string;
  path: string;
  line: number;
}

/** The window's problems. Those that TypeScript reported itself replace its older ones. */
function withOwn(
  found: readonly [vscode.Uri, readonly vscode.Diagnostic[]][],
  own: OwnProblems,
): ProblemItem[] {
  const items = found
    .filter(([uri]) => uri.scheme === "file")
    .flatMap(([uri, problems]) =>
      problems
        .filter((problem) => !own.has(uri.fsPath) || !isFromTypeScript(problem))
        .map((problem) => describe(uri, problem)),
    );
  const more = [...own].flatMap(([path, problems]) => problems.map((each) => ({ path, ...each })));
  return [...items, ...more];
}

function describe(uri: vscode.Uri, problem: vscode.Diagnostic): ProblemItem {
  const { start, end } = problem.range;
  const code = typeof problem.code === "object" ? problem.code.value : problem.code;
  return {
    path: uri.fsPath,
    line: start.line + 1,
    column: start.character + 1,
    end_line: end.line + 1,
    end_column: end.character + 1,
    severity: SEVERITIES[problem.severity],
    message: problem.message,
    source: problem.source ?? "",
    code: code === undefined ? "" : String(code),
  };
}

async function symbolsNamed(query: string): Promise<SymbolItem[]> {
  const found = await vscode.commands.executeCommand<vscode.SymbolInformation[] | undefined>(
    "vscode.executeWorkspaceSymbolProvider",
    query,
  );
  return (found ?? []).flatMap((symbol) => flatten(symbol, symbol.location.uri.fsPath, ""));
}

function flatten(
  symbol: vscode.DocumentSymbol | vscode.SymbolInformation,
  path: string,
  container: string,
): SymbolItem[] {
  const within = "location" in symbol ? symbol.containerName : container;
  const { start } = "location" in symbol ? symbol.location.range : symbol.selectionRange;
  const item: SymbolItem = {
    name: symbol.name,
    kind: vscode.SymbolKind[symbol.kind].toLowerCase(),
    container: within,
    path,
    line: start.line + 1,
    column: start.character + 1,
  };
  const inside = "children" in symbol ? symbol.children : [];
  return [item, ...inside.flatMap((child) => flatten(child, path, symbol.name))];
}

function isInTab(uri: vscode.Uri): boolean {
  return vscode.window.tabGroups.all
    .flatMap(({ tabs }) => tabs)
    .some(
      ({ input }) =>
        input instanceof vscode.TabInputText && input.uri.toString() === uri.toString(),
    );
}

/** Waits for the first diagnostics of a file, or a timeout. */
async function waitForFirstDiagnostics(uri: vscode.Uri): Promise<void> {
  await new Promise<void>((resolve) => {
    const listening = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
      if (uris.some((each) => each.toString() === uri.toString())) done();
    });
    const timer = setTimeout(() => done(), FIRST_DIAGNOSTICS_MS);
    const done = (): void => {
      clearTimeout(timer);
      listening.dispose();
      resolve();
    };
  });
}
