/** The quick fixes and refactorings that VS Code offers at a place. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { symbolOrLines, type NamedPlace, type OpenedDocument } from "./language_documents";
import { execute } from "./language_command";
import { pause, type WaitLimit } from "./language_servers";
import { isTypeScript, typeScriptProblems, type TypeScriptProblem } from "./typescript_server";

export type FoundCodeAction = vscode.CodeAction | vscode.Command;

const { QuickFix } = vscode.CodeActionKind;
const SEVERITIES = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  information: vscode.DiagnosticSeverity.Information,
  hint: vscode.DiagnosticSeverity.Hint,
};

/**
 * Milliseconds after the last change of a TypeScript document in which its extension may not offer
 * fixes yet. Before it has computed its own problems, the extension ignores problems of others, and
 * no event tells when it has computed them.
 */
const PENDING_MS = 5000;

export interface CodeActionPlace extends NamedPlace {
  /** Only actions of this kind. */
  query?: string | undefined;
}

export class CodeActionFinder implements Disposable {
  private lastChange = -PENDING_MS;
  private readonly disposables = new Disposables();

  constructor() {
    const note = (document: vscode.TextDocument): void => {
      if (isTypeScript(document)) this.lastChange = performance.now();
    };
    this.disposables.add(vscode.workspace.onDidOpenTextDocument(note));
    this.disposables.add(
      vscode.workspace.onDidChangeTextDocument(({ document }) => note(document)),
    );
  }

  dispose(): void {
    this.disposables.dispose();
  }

  /** VS Code completes (resolves) the first `resolved` actions. */
  async find(
    opened: OpenedDocument,
    place: CodeActionPlace,
    waitLimit: WaitLimit,
    resolved = 0,
  ): Promise<FoundCodeAction[]> {
    for (;;) {
      const isPending = performance.now() - this.lastChange < PENDING_MS;
      const { found, problems } = await this.ask(opened, place, resolved);
      const isComplete = !problems || !mayFix(place) || found.some(isFix);
      if (isComplete || !isPending || !(await pause(waitLimit))) return found;
    }
  }

  private async ask(
    opened: OpenedDocument,
    place: CodeActionPlace,
    resolved: number,
  ): Promise<{ found: FoundCodeAction[]; problems: number }> {
    const { uri } = opened.document;
    const range = symbolOrLines(opened, place);
    const problems = await problemsIn(opened.document, range);
    const shown = new Set(vscode.languages.getDiagnostics(uri).map(keyOf));
    const added = vscode.languages.createDiagnosticCollection();
    try {
      // VS Code offers quick fixes only for problems that it shows, and it shows problems of
      // TypeScript only for files in tabs. So the other problems are shown during the search.
      const hidden = problems.filter((each) => !shown.has(keyOf(each)));
      if (hidden.length) added.set(uri, hidden);
      const command = "vscode.executeCodeActionProvider";
      const query = place.query || undefined;
      const found = await execute<FoundCodeAction[]>(command, uri, range, query, resolved);
      return { found: found ?? [], problems: problems.length };
    } finally {
      added.dispose();
    }
  }
}

/** TypeScript's problems in the range; empty for other languages. */
async function problemsIn(
  document: vscode.TextDocument,
  range: vscode.Range,
): Promise<vscode.Diagnostic[]> {
  if (!isTypeScript(document)) return [];
  const own = await typeScriptProblems(document);
  if (typeof own === "string") return [];
  return own.map(asDiagnostic).filter((each) => each.range.intersection(range));
}

function mayFix({ query }: CodeActionPlace): boolean {
  const wanted = query ? vscode.CodeActionKind.Empty.append(query) : QuickFix;
  return wanted.intersects(QuickFix);
}

function isFix(found: FoundCodeAction): boolean {
  const { kind } = found as vscode.CodeAction;
  return kind !== undefined && QuickFix.contains(kind);
}

function asDiagnostic(problem: TypeScriptProblem): vscode.Diagnostic {
  const { line, column, end_line: endLine, end_column: endColumn, source, code } = problem;
  const range = new vscode.Range(line - 1, column - 1, endLine - 1, endColumn - 1);
  const diagnostic = new vscode.Diagnostic(range, problem.message, SEVERITIES[problem.severity]);
  return Object.assign(diagnostic, { source, code: Number(code) });
}

function keyOf({ range, code }: vscode.Diagnostic): string {
  const value = typeof code === "object" ? code.value : code;
  return `${range.start.line}:${range.start.character}:${value}`;
}
