import { expect, test, vi } from "vitest";
import type { CellView } from "../../src/notebook/kernel";
import { until } from "../common/until";

interface Controller {
  executeHandler: (cells: object[], notebook: object) => Promise<void>;
  interruptHandler: (notebook: object) => Promise<void>;
}

const controller = {
  createNotebookCellExecution: () => ({
    start: () => undefined,
    clearOutput: () => Promise.resolve(),
    end: () => undefined,
  }),
  dispose: () => undefined,
} as unknown as Controller;
vi.mock("vscode", () => ({
  notebooks: { createNotebookController: () => controller },
}));
const { Notebooks } = await import("../../src/notebook/notebooks");

const notebook = { uri: { fsPath: "/w/a.ipynb" } };
const cells = ["one", "two"].map((code) => ({ document: { getText: () => code } }));

type Run = (code: string, view: CellView, signal: AbortSignal) => Promise<void>;

/** A controller whose cells are run by `run`, and interrupted by `interrupt`. */
function started(run: Run, interrupt: () => void): { ran: string[]; log: () => void } {
  const ran: string[] = [];
  const log = vi.fn();
  new Notebooks({
    ...{ directory: "/notebooks", extension: "bascule" },
    run: () => Promise.reject(new Error("no agent's notebook")),
    runIn: (_, code, view, signal) => {
      ran.push(code);
      return run(code, view, signal);
    },
    interrupt: () => Promise.resolve(interrupt()),
    log: { warn: log } as never,
  });
  return { ran, log };
}

test("after an interrupt no other cell starts, also if the cell caught it and ended", async () => {
  let running: CellView | undefined;
  let wasAborted: boolean | undefined;
  const { ran } = started(
    (_, view, signal) => {
      running = view;
      view.begun(1);
      signal.addEventListener("abort", () => (wasAborted = true));
      return Promise.resolve();
    },
    () => running?.over(null),
  );
  const whole = controller.executeHandler(cells, notebook);
  await until(() => running);
  await controller.interruptHandler(notebook);
  await whole;
  expect(ran).toEqual(["one"]);
  expect(wasAborted).toBe(undefined); // a cell that runs is interrupted, and ends itself
  const next = controller.executeHandler(cells.slice(1), notebook);
  await until(() => ran.length === 2);
  running?.over(null);
  await next;
});

test("an interrupt cancels a cell that waits for its kernel", async () => {
  const aborted = vi.fn();
  const { ran } = started(
    (_, __, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          aborted();
          reject(new Error("cancelled"));
        });
      }),
    () => undefined,
  );
  const whole = controller.executeHandler(cells, notebook);
  await until(() => ran.length === 1);
  await controller.interruptHandler(notebook);
  await whole;
  expect(ran).toEqual(["one"]);
  expect(aborted).toHaveBeenCalledOnce();
});
