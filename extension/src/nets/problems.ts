/** Shows problems of open nets in the Problems view while they are edited. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { codeOf, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { withoutLinks } from "../consent/visible_text";
import { setting } from "../settings";
import { runNetCli, watchNets } from "./watch_nets";
import { readFindings, type Finding } from "./cli_output";
import { LatestTasks } from "./latest_tasks";
import { NO_PROGRAM } from "../common/nets";
import { TOO_LONG, type NetCli } from "./net_cli";

const UNCHECKED = "Bascule: nets are not checked or drawn, because";

export class NetProblems implements Disposable {
  private readonly owned = new Disposables();
  private readonly shown = this.owned.add(
    vscode.languages.createDiagnosticCollection("bascule-nets"),
  );
  private readonly latest = this.owned.add(new LatestTasks());
  private isReported = false;

  constructor(
    private readonly program: NetCli,
    private readonly log: Log,
  ) {
    this.owned.add(
      watchNets(
        (document, delayMs) => this.check(document, delayMs),
        (document) => {
          this.latest.cancel(document.uri.toString());
          this.shown.delete(document.uri);
        },
      ),
    );
  }

  dispose(): void {
    this.owned.dispose();
  }

  private check(document: vscode.TextDocument, delayMs: number): void {
    if (!vscode.workspace.isTrusted) return;
    this.latest.begin(document.uri.toString(), delayMs, async (signal) => {
      try {
        const { output } = await runNetCli(this.program, ["check", "--json"], document, signal);
        if (signal.aborted) return;
        const findings = readFindings(output, document.getText());
        this.shown.set(document.uri, findings.map(asDiagnostic));
      } catch (error) {
        if (!signal.aborted) this.failed(document, error);
      }
    });
  }

  private failed(document: vscode.TextDocument, error: unknown): void {
    if (codeOf(error) === TOO_LONG) this.shown.set(document.uri, [unchecked(messageOf(error))]);
    else this.shown.delete(document.uri);
    this.log.warn(`${document.uri.fsPath} was not checked: ${messageOf(error)}`);
    if (codeOf(error) !== NO_PROGRAM || this.isReported) return;
    this.isReported = true;
    const open = "Open Settings";
    void vscode.window.showInformationMessage(whyUnchecked(), open).then((answer) => {
      if (answer === open)
        void vscode.commands.executeCommand("workbench.action.openSettings", "bascule.python");
    });
  }
}

function whyUnchecked(): string {
  const python = setting("python");
  return python
    ? `${UNCHECKED} the Python in the setting bascule.python cannot run bascule: ${withoutLinks(python)}`
    : `${UNCHECKED} bascule was not found. Install it (pip install bascule), or set ` +
        "bascule.python to a Python that has it.";
}

function unchecked(message: string): vscode.Diagnostic {
  const problem = new vscode.Diagnostic(
    new vscode.Range(0, 0, 0, 1),
    message,
    vscode.DiagnosticSeverity.Warning,
  );
  problem.source = "bascule";
  problem.code = TOO_LONG;
  return problem;
}

function asDiagnostic({ isError, code, message, start, end }: Finding): vscode.Diagnostic {
  const { Error, Warning } = vscode.DiagnosticSeverity;
  const range = new vscode.Range(...start, ...end);
  const problem = new vscode.Diagnostic(range, message, isError ? Error : Warning);
  problem.source = "bascule";
  problem.code = code;
  return problem;
}
