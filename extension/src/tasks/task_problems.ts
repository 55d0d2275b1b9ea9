/** Collects the problems that a task's problem matchers report while it runs. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";

/** Milliseconds without a change after which the problems of an ended task are complete. */
const QUIET_MS = 600;
/** Maximum milliseconds to wait until they are complete. */
const MAX_WAIT_MS = 3000;
const SEVERITIES = ["error", "warning", "information", "hint"] as const;

export interface TaskProblem {
  [name: string]: unknown;
  path: string;
  line: number;
  column: number;
  severity: (typeof SEVERITIES)[number];
  message: string;
  source: string;
  code: string;
}

/**
 * The problems of one task. VS Code does not say which task reported a problem. So a problem counts
 * if the problems of its file changed while the task ran, and if it has the source of one of the
 * task's matchers. VS Code reports a change even if it finds the same problem again.
 */
export class TaskProblems implements Disposable {
  private readonly changed = new Map<string, vscode.Uri>();
  private changedAt = performance.now();
  private readonly listening: Disposable;

  /** `sources`: undefined accepts every source, an empty set none. */
  constructor(private readonly sources: ReadonlySet<string | null> | undefined) {
    this.listening = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
      for (const uri of uris) this.changed.set(uri.toString(), uri);
      this.changedAt = performance.now();
    });
  }

  /**
   * Waits until VS Code has passed on the problems of a task that ended just now. There is no event
   * for this: VS Code passes them on up to half a second after the event of the end.
   */
  async settle(): Promise<void> {
    if (this.sources?.size === 0) return;
    const until = performance.now() + MAX_WAIT_MS;
    this.changedAt = performance.now();
    for (;;) {
      const now = performance.now();
      const restMs = Math.min(this.changedAt + QUIET_MS, until) - now;
      if (restMs <= 0) return;
      await new Promise((resolve) => setTimeout(resolve, restMs));
    }
  }

  /** Milliseconds since the last change. */
  get quietMs(): number {
    return performance.now() - this.changedAt;
  }

  list(): TaskProblem[] {
    return [...this.changed.values()].flatMap((uri) =>
      vscode.languages
        .getDiagnostics(uri)
        .filter(({ source }) => this.sources?.has(source ?? null) ?? true)
        .map((problem) => describe(uri, problem)),
    );
  }

  dispose(): void {
    this.listening.dispose();
  }
}

export function problemText(problem: TaskProblem): string {
  const { path, line, column, severity, message } = problem;
  return `${path}:${line}:${column}: ${severity}: ${message}`;
}

function describe(uri: vscode.Uri, problem: vscode.Diagnostic): TaskProblem {
  const { code } = problem;
  const text = typeof code === "object" ? code.value : code;
  return {
    path: uri.fsPath,
    line: problem.range.start.line + 1,
    column: problem.range.start.character + 1,
    severity: SEVERITIES[problem.severity],
    message: problem.message,
    source: problem.source ?? "",
    code: text === undefined ? "" : String(text),
  };
}
