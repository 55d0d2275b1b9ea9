/**
 * Requests to the server of VS Code's own TypeScript extension, for what no provider reports.
 *
 * While a project is loading, the extension answers lookups and renames from a second server that
 * knows one file only, so the answers would be incomplete. The extension also shows problems only
 * of files in tabs. A request for a file's problems goes to the main server, which answers it after
 * the project was loaded.
 */
import * as vscode from "vscode";
import { messageOf } from "../common/failure";

const LANGUAGES = new Set(["typescript", "typescriptreact", "javascript", "javascriptreact"]);
const COMMAND = "typescript.tsserverRequest";
const REQUESTS = ["syntacticDiagnosticsSync", "semanticDiagnosticsSync"] as const;
const SUGGESTIONS = "suggestionDiagnosticsSync";
const SEVERITIES: Readonly<Partial<Record<string, TypeScriptProblem["severity"]>>> = {
  error: "error",
  warning: "warning",
  suggestion: "hint",
};

interface ServerPlace {
  /** Both count from 1. */
  line: number;
  offset: number;
}

interface ServerProblem {
  start: ServerPlace;
  end: ServerPlace;
  text: string;
  category: string;
  code?: number;
  source?: string;
}

export interface TypeScriptProblem {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
  severity: "error" | "warning" | "information" | "hint";
  message: string;
  source: string;
  code: string;
}

export function isTypeScript({ languageId, uri }: vscode.TextDocument): boolean {
  return LANGUAGES.has(languageId) && uri.scheme === "file";
}

/** Whether a problem in the window comes from TypeScript. */
export function isFromTypeScript({ source }: { source?: string | undefined }): boolean {
  return source === "ts" || source === "js";
}

/**
 * The problems of the current text, after the project is loaded. "busy" if the server does not know
 * the file yet; "absent" if the window has no such server.
 */
export async function typeScriptProblems(
  document: vscode.TextDocument,
): Promise<TypeScriptProblem[] | "busy" | "absent"> {
  // The first requests wait until the project is loaded; before that there are no suggestions.
  const found = [];
  for (const request of [...REQUESTS, SUGGESTIONS]) {
    const answer = await ask(document, request);
    if (typeof answer === "string") return answer;
    found.push(...answer);
  }
  const source = document.languageId.startsWith("javascript") ? "js" : "ts";
  return found.map((problem) => described(problem, source));
}

/** Waits until the project is loaded. "busy" and "absent" as in `typeScriptProblems`. */
export async function loadProject(
  document: vscode.TextDocument,
): Promise<"loaded" | "busy" | "absent"> {
  const answer = await ask(document, REQUESTS[1]);
  return typeof answer === "string" ? answer : "loaded";
}

async function ask(
  { uri }: vscode.TextDocument,
  request: string,
): Promise<ServerProblem[] | "busy" | "absent"> {
  try {
    const answer = await vscode.commands.executeCommand<
      { type?: string; body?: ServerProblem[] } | undefined
    >(COMMAND, request, { file: uri });
    return answer?.type === "response" && answer.body ? answer.body : "busy";
  } catch (error) {
    // The command is there when the extension is active. Other errors come from a server that does
    // not have the file yet, or that was just restarted.
    return messageOf(error).includes(`'${COMMAND}' not found`) ? "absent" : "busy";
  }
}

function described(problem: ServerProblem, source: string): TypeScriptProblem {
  const { start, end, text, category, code } = problem;
  return {
    line: start.line,
    column: start.offset,
    end_line: end.line,
    end_column: end.offset,
    severity: SEVERITIES[category] ?? "information",
    message: text,
    source: problem.source ?? source,
    code: code === undefined ? "" : String(code),
  };
}
