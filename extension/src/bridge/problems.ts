/** Reads the Problems view, and adds problems that scripts report. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import type { Params } from "./messages";
import { count, invalid, isGiven, objects, text } from "./params";

const SEVERITIES = ["error", "warning", "information", "hint"] as const;
const LEVELS = [
  vscode.DiagnosticSeverity.Error,
  vscode.DiagnosticSeverity.Warning,
  vscode.DiagnosticSeverity.Information,
  vscode.DiagnosticSeverity.Hint,
];
const MAX_PROBLEMS = 2000;

/** Problems of a script stay after it ended, like those of a compiler. */
export class ScriptProblems implements Disposable {
  private readonly shown = vscode.languages.createDiagnosticCollection("Bascule");
  private readonly byRun = new Map<string, Map<string, vscode.Uri>>();

  get handlers(): RequestHandlers {
    return {
      "vscode/diagnostics": ({ params }) => Promise.resolve(read(params)),
      "vscode/setDiagnostics": (request) => Promise.resolve(this.set(request)),
    };
  }

  dispose(): void {
    this.shown.dispose();
  }

  /** Forgets which problems a run reported. The problems stay visible. */
  forget(run: string): void {
    this.byRun.delete(run);
  }

  private set({ params, run }: BridgeRequest): unknown {
    const mine = this.byRun.get(run) ?? new Map<string, vscode.Uri>();
    this.byRun.set(run, mine);
    if (!isGiven(params, "path")) {
      for (const uri of mine.values()) this.shown.delete(uri);
      mine.clear();
      return {};
    }
    const uri = vscode.Uri.file(text(params, "path"));
    this.shown.set(uri, objects(params, "items").slice(0, MAX_PROBLEMS).map(asDiagnostic));
    mine.set(uri.toString(), uri);
    return {};
  }
}

function read(params: Params): unknown {
  const all: [vscode.Uri, readonly vscode.Diagnostic[]][] = isGiven(params, "path")
    ? [vscode.Uri.file(text(params, "path"))].map((uri) => [
        uri,
        vscode.languages.getDiagnostics(uri),
      ])
    : vscode.languages.getDiagnostics();
  const items = all
    .filter(([uri]) => uri.scheme === "file")
    .flatMap(([uri, problems]) => problems.map((problem) => describe(uri, problem)));
  return { items: items.slice(0, MAX_PROBLEMS) };
}

function describe(uri: vscode.Uri, problem: vscode.Diagnostic): Record<string, unknown> {
  const { start, end } = problem.range;
  const code = typeof problem.code === "object" ? problem.code.value : (problem.code ?? "");
  return {
    path: uri.fsPath,
    message: problem.message,
    severity: SEVERITIES[problem.severity],
    line: start.line + 1,
    column: start.character + 1,
    endLine: end.line + 1,
    endColumn: end.character + 1,
    source: problem.source ?? "",
    code: String(code),
  };
}

function asDiagnostic(item: Params): vscode.Diagnostic {
  const severity = LEVELS[SEVERITIES.findIndex((each) => each === text(item, "severity", "error"))];
  if (severity === undefined) throw invalid("severity", `one of ${SEVERITIES.join(", ")}`);
  const line = count(item, "line") - 1;
  const endLine = count(item, "endLine", line + 1) - 1;
  // Without an end column: to the end of the line.
  const endColumn = isGiven(item, "endColumn") ? count(item, "endColumn") - 1 : 10_000;
  const range = new vscode.Range(line, count(item, "column", 1) - 1, endLine, endColumn);
  const problem = new vscode.Diagnostic(range, text(item, "message"), severity);
  problem.source = text(item, "source", "") || "script";
  if (text(item, "code", "")) problem.code = text(item, "code");
  return problem;
}
