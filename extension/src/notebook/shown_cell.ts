/** Writes the outputs of a running cell into a notebook, in order. */
import * as vscode from "vscode";
import { OutputThrottle } from "../terminal/output_throttle";
import type { CellView } from "./kernel";
import type { CellError, RichOutput } from "./kernel_worker";

/** Outputs wait until `opened` resolves. If it fails, the cell is not shown. */
export class ShownCell implements CellView {
  private turn: Promise<void>;
  private readonly stream: OutputThrottle;
  private readonly shown = new Map<string, vscode.NotebookCellOutput>();
  private printed: { name: string; output: vscode.NotebookCellOutput } | undefined;
  private streamName = "stdout";
  /** After `clear_output(wait=True)`: the next output replaces the earlier ones. */
  private clearsFirst = false;
  private isOver = false;

  constructor(
    opened: Promise<vscode.NotebookCellExecution>,
    private readonly onError: (error: unknown) => void,
    private readonly onOver: () => void = () => undefined,
  ) {
    this.stream = new OutputThrottle((data) => this.print(data.toString()));
    this.turn = opened.then((execution) => {
      this.execution = execution;
    }, onError);
  }

  private execution: vscode.NotebookCellExecution | undefined;

  begun(count: number): void {
    this.then((execution) => {
      execution.executionOrder = count;
      return Promise.resolve();
    });
  }

  output(output: RichOutput): void {
    if (output.output_type === "stream") {
      if (output.name !== this.streamName) this.stream.flush();
      this.streamName = output.name ?? "stdout";
      this.stream.add(Buffer.from(output.text ?? ""));
      return;
    }
    this.stream.flush();
    if (output.output_type === "clear_output") {
      if (output.wait) this.clearsFirst = true;
      else this.clear();
    } else this.show(output);
  }

  over(error: CellError | null): void {
    if (this.isOver) return;
    this.isOver = true;
    this.stream.flush();
    this.then((execution) => {
      execution.end(!error, Date.now());
      this.onOver();
      return Promise.resolve();
    });
  }

  /** Resolves when the notebook has all that was written so far. */
  written(): Promise<void> {
    return this.turn;
  }

  private print(text: string): void {
    const name = this.streamName;
    this.then(async (execution) => {
      const item =
        name === "stderr"
          ? vscode.NotebookCellOutputItem.stderr(text)
          : vscode.NotebookCellOutputItem.stdout(text);
      await this.clearIfWanted(execution);
      if (this.printed?.name === name)
        return execution.appendOutputItems(item, this.printed.output);
      this.printed = { name, output: new vscode.NotebookCellOutput([item]) };
      return execution.appendOutput(this.printed.output);
    });
  }

  private show(output: RichOutput): void {
    const id = output.transient?.display_id;
    this.then(async (execution) => {
      const known = id === undefined ? undefined : this.shown.get(id);
      if (output.output_type === "update_display_data") {
        if (known) await execution.replaceOutputItems(itemsOf(output), known);
        return;
      }
      await this.clearIfWanted(execution);
      this.printed = undefined;
      const shownOutput = new vscode.NotebookCellOutput(itemsOf(output));
      if (id !== undefined) this.shown.set(id, shownOutput);
      await execution.appendOutput(shownOutput);
    });
  }

  private clear(): void {
    this.then(async (execution) => {
      this.printed = undefined;
      await execution.clearOutput();
    });
  }

  private async clearIfWanted(execution: vscode.NotebookCellExecution): Promise<void> {
    if (!this.clearsFirst) return;
    this.clearsFirst = false;
    this.printed = undefined;
    await execution.clearOutput();
  }

  private then(work: (execution: vscode.NotebookCellExecution) => Thenable<void>): void {
    this.turn = this.turn
      .then(() => (this.execution ? work(this.execution) : undefined))
      .catch(this.onError);
  }
}

function itemsOf(output: RichOutput): vscode.NotebookCellOutputItem[] {
  if (output.output_type === "error")
    return [
      vscode.NotebookCellOutputItem.error({
        name: output.ename ?? "Error",
        message: output.evalue ?? "",
        stack: (output.traceback ?? []).join("\n"),
      }),
    ];
  return Object.entries(output.data ?? {}).map(([mime, value]) => itemOf(mime, value));
}

function itemOf(mime: string, value: unknown): vscode.NotebookCellOutputItem {
  if (typeof value !== "string") return vscode.NotebookCellOutputItem.json(value, mime);
  if (mime.startsWith("image/") && mime !== "image/svg+xml")
    return new vscode.NotebookCellOutputItem(Buffer.from(value, "base64"), mime);
  return vscode.NotebookCellOutputItem.text(value, mime);
}
