/** Describes cells of a notebook: as data, and as text for a model. */
import * as vscode from "vscode";
import type { CellKindName } from "./cell_edits";
import { ImageList, readOutputs, type CellOutput } from "./cell_outputs";

/** Maximum characters of the text of an answer, and of the source of one cell. */
const MAX_TEXT = 60_000;
const MAX_SOURCE = 30_000;

export type CellState = "done" | "failed" | "running" | "not_run";

/** A type alias, not an interface, so that it is assignable to an item of an observation. */
export type CellItem = {
  cell: number;
  kind: CellKindName;
  language: string;
  source: string;
  execution_count: number | null;
  state: CellState | null;
  outputs: CellOutput[];
};

export interface DescribedCells {
  items: CellItem[];
  content: string;
  images: ImageList;
  /** How many of the cells are described. The others did not fit. */
  count: number;
  isCut: boolean;
}

export interface DescribeOptions {
  outputs: boolean;
  outputLimit: number;
  /** States after a run. Without them, the states of the last runs are used. */
  states?: ReadonlyMap<vscode.NotebookCell, CellState>;
}

export function kindOf({ kind }: { kind: vscode.NotebookCellKind }): CellKindName {
  return kind === vscode.NotebookCellKind.Code ? "code" : "markdown";
}

/** Describes cells in order until the text is full, but at least one. */
export function describeCells(
  cells: readonly vscode.NotebookCell[],
  options: DescribeOptions,
): DescribedCells {
  const images = new ImageList();
  const items: CellItem[] = [];
  const texts: string[] = [];
  let [length, isCut] = [0, false];
  for (const cell of cells) {
    const { item, isCut: isItemCut } = describe(cell, images, options);
    const text = textOf(item, images);
    if (items.length && length + text.length > MAX_TEXT) break;
    isCut ||= isItemCut;
    length += text.length;
    items.push(item);
    texts.push(text);
  }
  return { items, content: texts.join("\n\n"), images, count: items.length, isCut };
}

function describe(
  cell: vscode.NotebookCell,
  images: ImageList,
  { outputs: withOutputs, outputLimit, states }: DescribeOptions,
): { item: CellItem; isCut: boolean } {
  const whole = cell.document.getText();
  const source = whole.slice(0, MAX_SOURCE);
  const read = withOutputs
    ? readOutputs(
        cell.outputs.map(({ items }) => items),
        images,
        outputLimit,
      )
    : { outputs: [], isCut: false };
  const { executionOrder, success } = cell.executionSummary ?? {};
  const last = typeof success === "boolean" ? (success ? "done" : "failed") : null;
  const item: CellItem = {
    cell: cell.index + 1,
    kind: kindOf(cell),
    language: cell.document.languageId,
    source,
    execution_count: executionOrder ?? null,
    state: states?.get(cell) ?? last,
    outputs: read.outputs,
  };
  return { item, isCut: read.isCut || source !== whole };
}

function textOf(item: CellItem, images: ImageList): string {
  const facts = [
    item.kind === "code" ? item.language : "markdown",
    ...(item.execution_count === null ? [] : [`run ${item.execution_count}`]),
    ...(item.state === null ? [] : [item.state.replace("_", " ")]),
  ];
  const lines = [`cell ${item.cell} (${facts.join(", ")}):`, item.source];
  for (const output of item.outputs) lines.push(outputText(output, images));
  return lines.join("\n");
}

function outputText({ type, name, text, image }: CellOutput, images: ImageList): string {
  const body = text.replace(/\n$/, "");
  if (type === "error") return `error:\n${body}`;
  if (type === "text") return `${name === "stderr" ? "stderr" : "output"}:\n${body || `(${name})`}`;
  const which = image === null ? "left out" : `image ${image + 1} of ${images.urls.length}`;
  return `image (${name}, ${which}): ${body}`.trimEnd();
}
