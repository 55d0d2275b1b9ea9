/** Results of lookups as data, and as lines of text with `path:line`. */
import * as vscode from "vscode";

/** Maximum characters of a line of code in a result. */
const MAX_LINE_CHARS = 200;

export interface LookupItem {
  [name: string]: unknown;
}

export interface RangeItem extends LookupItem {
  path: string;
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}

export function rangeItem(uri: vscode.Uri, { start, end }: vscode.Range): RangeItem {
  return {
    path: uri.scheme === "file" ? uri.fsPath : uri.toString(),
    line: start.line + 1,
    column: start.character + 1,
    end_line: end.line + 1,
    end_column: end.character + 1,
  };
}

export function locationItem(found: vscode.Location | vscode.LocationLink): RangeItem {
  return "targetUri" in found
    ? rangeItem(found.targetUri, found.targetSelectionRange ?? found.targetRange)
    : rangeItem(found.uri, found.range);
}

export function symbolItem(symbol: vscode.SymbolInformation): RangeItem {
  return {
    ...rangeItem(symbol.location.uri, symbol.location.range),
    name: symbol.name,
    kind: kindOf(symbol.kind),
    container: symbol.containerName,
  };
}

/** `calls`: places of the calls, in `item` if it is the caller, otherwise in the symbol's file. */
export function callItem(
  item: vscode.CallHierarchyItem,
  calls: readonly vscode.Range[],
): RangeItem {
  return {
    ...rangeItem(item.uri, item.selectionRange),
    name: item.name,
    kind: kindOf(item.kind),
    container: item.detail ?? "",
    lines: calls.map(({ start }) => start.line + 1),
  };
}

export function codeActionItem(found: vscode.CodeAction | vscode.Command): LookupItem {
  const action = found as vscode.CodeAction;
  return {
    title: found.title,
    kind: action.kind?.value ?? "",
    is_preferred: action.isPreferred ?? false,
    disabled: action.disabled?.reason ?? "",
  };
}

export function hoverText({ contents }: vscode.Hover): string {
  return contents
    .map((each) => (typeof each === "string" ? each : (each as vscode.MarkdownString).value))
    .filter((text) => text.trim())
    .join("\n");
}

/** One line of text for an item. */
export function itemLine(item: LookupItem): string {
  const { path, line, text, name, kind, container, title, lines } = item as Partial<
    Record<string, string>
  > & { lines?: number[] };
  if (title !== undefined) {
    const marks = [kind, item["is_preferred"] ? "preferred" : "", item["disabled"]];
    return `${title} (${marks.filter(Boolean).join("; ")})`;
  }
  if (path === undefined) return text ?? "";
  const place = `${path}:${line}`;
  if (name === undefined) return text ? `${place}: ${shortLine(text)}` : place;
  const inside = container ? ` in ${container}` : "";
  const calls = lines?.length ? `, called in line ${lines.join(", ")}` : "";
  return `${place}: ${kind} ${name}${inside}${calls}`;
}

export function shortLine(text: string): string {
  const line = text.trim();
  return line.length > MAX_LINE_CHARS ? `${line.slice(0, MAX_LINE_CHARS)}…` : line;
}

function kindOf(kind: vscode.SymbolKind): string {
  return vscode.SymbolKind[kind].toLowerCase();
}
