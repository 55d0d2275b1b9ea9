/** Adds, removes and lists VS Code's breakpoints, which the user sees and changes too. */
import * as vscode from "vscode";
import type { LanguageDocuments } from "../language/language_documents";
import { Failure } from "../common/failure";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";

/** A breakpoint as an action gives it. */
interface GivenBreakpoint {
  line?: unknown;
  condition?: unknown;
  hit_condition?: unknown;
  log_message?: unknown;
}

export class AgentBreakpoints {
  /** Ids of breakpoints that agents set. */
  private readonly ours = new Set<string>();
  /** Filters for exceptions, by agent. */
  private readonly filters = new Map<string, readonly string[]>();

  constructor(private readonly documents: LanguageDocuments) {
    // VS Code sends the breakpoints of earlier windows only after the first access.
    vscode.debug.breakpoints.some(isSource);
  }

  exceptionsOf(agent: string): readonly string[] | undefined {
    return this.filters.get(agent);
  }

  async set(
    args: ArgsOf<"set_breakpoints">,
    cwd: string,
    agent: string,
  ): Promise<ObservationBody<"breakpoints">> {
    const { path, add = [], remove = [], clear = false, exceptions } = args;
    if (!path && (add.length || remove.length))
      throw new Failure("path.invalid", "A `path` is needed: the file of the breakpoints");
    const opened = path ? await this.documents.open(path, cwd) : undefined;
    const uri = opened?.document.uri;
    const made = opened ? add.map((each) => breakpointOf(each, opened.document)) : [];
    const lines = new Set([...made.map(lineOf), ...remove]);
    const unknown = remove.filter((line) => !uri || !inFile(uri).some((b) => lineOf(b) === line));
    if (unknown.length)
      throw new Failure(
        "file.invalid_range",
        `There is no breakpoint in line ${unknown.join(", ")} of ${opened?.target.displayPath}`,
      );
    if (clear) this.clear(uri);
    if (uri) vscode.debug.removeBreakpoints(inFile(uri).filter((each) => lines.has(lineOf(each))));
    vscode.debug.addBreakpoints(made);
    for (const { id } of made) this.ours.add(id);
    if (exceptions) this.filters.set(agent, exceptions);
    return this.listed(uri, agent);
  }

  private clear(uri: vscode.Uri | undefined): void {
    const all = uri ? inFile(uri) : vscode.debug.breakpoints;
    vscode.debug.removeBreakpoints(all.filter(({ id }) => this.ours.has(id)));
  }

  private listed(uri: vscode.Uri | undefined, agent: string): ObservationBody<"breakpoints"> {
    const items = (uri ? inFile(uri) : vscode.debug.breakpoints.filter(isSource))
      .map((each) => ({
        path: each.location.uri.fsPath,
        line: lineOf(each),
        enabled: each.enabled,
        condition: each.condition ?? "",
        hit_condition: each.hitCondition ?? "",
        log_message: each.logMessage ?? "",
        by: this.ours.has(each.id) ? "agent" : "user",
      }))
      .sort((one, other) => one.path.localeCompare(other.path) || one.line - other.line);
    const exceptions = [...(this.filters.get(agent) ?? [])];
    const content = [
      ...(items.length ? items.map(breakpointLine) : ["No breakpoints"]),
      ...(exceptions.length ? [`Stops at exceptions: ${exceptions.join(", ")}`] : []),
    ].join("\n");
    return observe("breakpoints", content, { items, exceptions });
  }
}

function breakpointLine(item: {
  path: string;
  line: number;
  enabled: boolean;
  condition: string;
  hit_condition: string;
  log_message: string;
  by: string;
}): string {
  const about = [
    ...(item.condition ? [`if ${item.condition}`] : []),
    ...(item.hit_condition ? [`hits ${item.hit_condition}`] : []),
    ...(item.log_message ? [`logs ${item.log_message}`] : []),
    ...(item.enabled ? [] : ["disabled"]),
    ...(item.by === "user" ? ["set by the user"] : []),
  ];
  return `${item.path}:${item.line}${about.length ? ` (${about.join("; ")})` : ""}`;
}

function breakpointOf(
  given: GivenBreakpoint,
  document: vscode.TextDocument,
): vscode.SourceBreakpoint {
  const { line } = given;
  if (typeof line !== "number" || !Number.isInteger(line) || line < 1 || line > document.lineCount)
    throw new Failure(
      "file.invalid_range",
      `${document.uri.fsPath} has lines 1 to ${document.lineCount}; \`line\` is ${JSON.stringify(line)}`,
    );
  const text = (name: keyof GivenBreakpoint): string | undefined => {
    const value = given[name];
    return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
  };
  return new vscode.SourceBreakpoint(
    new vscode.Location(document.uri, new vscode.Position(line - 1, 0)),
    true,
    text("condition"),
    text("hit_condition"),
    text("log_message"),
  );
}

function isSource(each: vscode.Breakpoint): each is vscode.SourceBreakpoint {
  return each instanceof vscode.SourceBreakpoint;
}

function inFile(uri: vscode.Uri): vscode.SourceBreakpoint[] {
  return vscode.debug.breakpoints
    .filter(isSource)
    .filter(({ location }) => location.uri.toString() === uri.toString());
}

function lineOf({ location }: vscode.SourceBreakpoint): number {
  return location.range.start.line + 1;
}
