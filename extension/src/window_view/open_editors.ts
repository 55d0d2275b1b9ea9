/** Lists the open editors of the window, as the user sees them. */
import * as vscode from "vscode";
import { observe, type ObservationBody } from "../protocol";

interface ShownLines {
  start_line: number;
  end_line: number;
}

interface EditorItem {
  [name: string]: unknown;
  label: string;
  type: "text" | "diff" | "notebook" | "terminal" | "other";
  path: string | null;
  group: number;
  is_active: boolean;
  is_visible: boolean;
  is_dirty: boolean;
  is_preview: boolean;
  is_pinned: boolean;
  visible_lines: ShownLines[];
  selections: (ShownLines & { start_column: number; end_column: number })[];
}

const MAX_ITEMS = 200;

export function listOpenEditors(): ObservationBody<"open_editors"> {
  const all = vscode.window.tabGroups.all.flatMap((group) =>
    group.tabs.map((tab) => describe(tab, group)),
  );
  const items = all.slice(0, MAX_ITEMS);
  const content = items.map(itemText).join("\n") || "No editor is open";
  const truncated = all.length > items.length;
  const seen = observe("open_editors", content, { items, truncated });
  return truncated ? { ...seen, note: `Only ${items.length} of ${all.length} editors` } : seen;
}

function describe(tab: vscode.Tab, group: vscode.TabGroup): EditorItem {
  const { type, uri } = inputOf(tab.input);
  const editor = tab.isActive && uri ? editorOf(uri, group.viewColumn) : undefined;
  return {
    label: tab.label,
    type,
    path: uri?.scheme === "file" ? uri.fsPath : null,
    group: group.viewColumn,
    is_active: tab.isActive && group.isActive,
    is_visible: tab.isActive,
    is_dirty: tab.isDirty,
    is_preview: tab.isPreview,
    is_pinned: tab.isPinned,
    visible_lines: (editor?.visibleRanges ?? []).map(linesOf),
    selections: (editor?.selections ?? []).map((each) => ({
      ...linesOf(each),
      start_column: each.start.character + 1,
      end_column: each.end.character + 1,
    })),
  };
}

/** The type of a tab's editor, and its file: in a diff, the new file. */
function inputOf(input: unknown): { type: EditorItem["type"]; uri: vscode.Uri | undefined } {
  const { TabInputText, TabInputTextDiff, TabInputNotebook, TabInputNotebookDiff } = vscode;
  if (input instanceof TabInputText) return { type: "text", uri: input.uri };
  if (input instanceof TabInputTextDiff || input instanceof TabInputNotebookDiff)
    return { type: "diff", uri: input.modified };
  if (input instanceof TabInputNotebook) return { type: "notebook", uri: input.uri };
  if (input instanceof vscode.TabInputTerminal) return { type: "terminal", uri: undefined };
  const uri = input instanceof vscode.TabInputCustom ? input.uri : undefined;
  return { type: "other", uri };
}

function editorOf(uri: vscode.Uri, column: vscode.ViewColumn): vscode.TextEditor | undefined {
  return vscode.window.visibleTextEditors.find(
    ({ document, viewColumn }) =>
      document.uri.toString() === uri.toString() && viewColumn === column,
  );
}

function linesOf({ start, end }: vscode.Range): ShownLines {
  return { start_line: start.line + 1, end_line: end.line + 1 };
}

function itemText(item: EditorItem): string {
  const [selection] = item.selections;
  const place = item.path ?? item.label;
  const line = selection ? `:${selection.start_line}` : "";
  const shown = item.visible_lines.map((each) => `${each.start_line}-${each.end_line}`);
  const isSelected =
    selection !== undefined &&
    (selection.start_line !== selection.end_line ||
      selection.start_column !== selection.end_column);
  const marks = [
    ...(item.type === "text" ? [] : [item.type]),
    ...(item.is_active ? ["active"] : item.is_visible ? ["visible"] : []),
    ...(item.is_dirty ? ["unsaved changes"] : []),
    ...(shown.length ? [`shows lines ${shown.join(", ")}`] : []),
    ...(isSelected ? [`selected up to line ${selection.end_line}`] : []),
  ];
  return `${place}${line}${marks.length ? ` (${marks.join("; ")})` : ""}`;
}
