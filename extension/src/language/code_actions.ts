/** The quick fixes and refactorings that VS Code offers at a place. */
import * as vscode from "vscode";
import { symbolOrLines, type NamedPlace, type OpenedDocument } from "./language_documents";
import { execute } from "./language_command";
import { isTypeScript, typeScriptProblems, type TypeScriptProblem } from "./typescript_server";

export type FoundCodeAction = vscode.CodeAction | vscode.Command;

const SEVERITIES = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  information: vscode.DiagnosticSeverity.Information,
  hint: vscode.DiagnosticSeverity.Hint,
};

/** With a `query`, only actions of this kind. The first `resolved` actions are complete. */
export async function codeActions(
  opened: OpenedDocument,
  place: NamedPlace & { query?: string | undefined },
  resolved = 0,
): Promise<FoundCodeAction[] | undefined> {
  const { document } = opened;
  const range = symbolOrLines(opened, place);
  const shown = await showProblems(document, range);
  try {
    return await execute(
      "vscode.executeCodeActionProvider",
      document.uri,
      range,
      place.query || undefined,
      resolved,
    );
  } finally {
    shown?.dispose();
  }
}

/**
 * A quick fix is for a problem that VS Code shows, and TypeScript shows problems only of files in
 * tabs. The others are added until the result is disposed.
 */
async function showProblems(
  document: vscode.TextDocument,
  range: vscode.Range,
): Promise<vscode.Disposable | undefined> {
  if (!isTypeScript(document)) return undefined;
  const own = await typeScriptProblems(document);
  if (typeof own === "string") return undefined;
  const shown = new Set(vscode.languages.getDiagnostics(document.uri).map(keyOf));
  const missing = own
    .map(asDiagnostic)
    .filter((each) => !shown.has(keyOf(each)) && each.range.intersection(range));
  if (!missing.length) return undefined;
  const added = vscode.languages.createDiagnosticCollection();
  added.set(document.uri, missing);
  return added;
}

function asDiagnostic(problem: TypeScriptProblem): vscode.Diagnostic {
  const { line, column, end_line: endLine, end_column: endColumn, source, code } = problem;
  const range = new vscode.Range(line - 1, column - 1, endLine - 1, endColumn - 1);
  const made = new vscode.Diagnostic(range, problem.message, SEVERITIES[problem.severity]);
  return Object.assign(made, { source, code: Number(code) });
}

function keyOf({ range, code }: vscode.Diagnostic): string {
  const value = typeof code === "object" ? code.value : code;
  return `${range.start.line}:${range.start.character}:${value}`;
}
