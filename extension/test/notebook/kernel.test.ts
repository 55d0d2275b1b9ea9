import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Kernel, type CellRequest, type CellView } from "../../src/notebook/kernel";
import { Kernels } from "../../src/notebook/kernels";
import { findPython } from "../../src/notebook/python";
import type { CellError, RichOutput } from "../../src/notebook/kernel_worker";
import type { CellMetadata, ObservationBody } from "../../src/protocol";
import { until } from "../common/until";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const PYTHON = process.env.BASCULE_TEST_PYTHON ?? path.join(ROOT, ".venv/bin/python");
const SCRIPT = path.join(ROOT, "src/bascule/sandbox/ipython/_worker_main.py");

let directory: string;
let kernel: Kernel;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-"));
  kernel = make();
});

afterEach(() => {
  kernel.close();
  fs.rmSync(directory, { recursive: true, maxRetries: 10, force: true });
});

function make(python = PYTHON, name = "main"): Kernel {
  return new Kernel({
    python: () => python,
    script: SCRIPT,
    directory: path.join(directory, name),
    logFile: path.join(directory, `${name}.log`),
    logLimit: 1 << 26,
    outputLimit: 30_000,
    workingDir: directory,
    env: { PATH: process.env.PATH ?? "", HOME: directory, LANG: "C.UTF-8" },
    followShell: true,
  });
}

class Watched implements CellView {
  readonly outputs: RichOutput[] = [];
  count = 0;
  private end!: (error: CellError | null) => void;
  readonly ended = new Promise<CellError | null>((resolve) => (this.end = resolve));

  begun(count: number): void {
    this.count = count;
  }
  output(output: RichOutput): void {
    this.outputs.push(output);
  }
  over(error: CellError | null): void {
    this.end(error);
  }
}

function run(
  code: string,
  more: Partial<CellRequest> = {},
  view?: CellView,
  signal?: AbortSignal,
): Promise<ObservationBody<"run_ipython">> {
  return kernel.run(
    { code, cwd: directory, include_extra: false, ...more },
    view,
    undefined,
    signal,
  );
}

function meta(answer: ObservationBody): CellMetadata {
  return answer.extras.metadata as CellMetadata;
}

test("a kernel remembers, and marks errors", async () => {
  await run("x = 41");
  expect(await run("x + 1")).toMatchObject({ content: "42", success: true });
  const failed = await run("1 / 0");
  expect(failed.success).toBe(false);
  expect(meta(failed)).toMatchObject({ state: "failed", error_name: "ZeroDivisionError" });
});

test("the notebook gets what a notebook keeps", async () => {
  const view = new Watched();
  await run("print('out')\n{'a': 1}", {}, view);
  expect(await view.ended).toBe(null);
  expect(view.count).toBe(1);
  const kinds = view.outputs.map((output) => output.output_type);
  expect(kinds).toEqual(["stream", "execute_result"]);
  expect(view.outputs[1]?.data?.["text/plain"]).toBe("{'a': 1}");
});

test("a cell that asks is answered by the next order and shown to its end", async () => {
  const view = new Watched();
  expect(meta(await run("print('hi', input('name? '))", {}, view)).state).toBe("input");
  expect((await run("Ada", { is_input: true })).content).toBe("hi Ada");
  expect(await view.ended).toBe(null);
});

test("aborting interrupts the cell and keeps the variables", async () => {
  await run("x = 1");
  const controller = new AbortController();
  const view = new Watched();
  const running = run("import time; time.sleep(600)", {}, view, controller.signal);
  controller.abort();
  await expect(running).rejects.toMatchObject({ code: "action.cancelled" });
  expect((await run("x")).content).toBe("1");
});

test.each(["worker", "IPython"])(
  "a cell aborted while its %s starts does not run",
  async (what) => {
    const controller = new AbortController();
    const view = new Watched();
    const running = run("open('ran', 'w')", {}, view, controller.signal);
    if (what === "IPython") await until(() => kernel["pendingCells"].size);
    controller.abort();
    await expect(running).rejects.toMatchObject({ code: "action.cancelled" });
    expect(await view.ended).not.toBe(null);
    expect((await run("import os; os.path.exists('ran')")).content).toBe("False");
  },
);

test("a kernel that dies is replaced and said to be", async () => {
  const view = new Watched();
  expect(meta(await run("import os; os._exit(3)", {}, view)).state).toBe("died");
  await view.ended;
  const after = await run("'fresh'");
  expect(meta(after).new_kernel).toBe(true);
  expect(after.content).toContain("This is a new kernel");
});

test("a worker that is killed takes the cell with it", async () => {
  const view = new Watched();
  const died = await run(
    "import os, signal; os.kill(os.getppid(), signal.SIGKILL)\nimport time; time.sleep(60)",
    {},
    view,
  );
  expect(meta(died).state).toBe("died");
  expect((await view.ended)?.name).toBe("KernelDied");
  expect(meta(await run("1")).new_kernel).toBe(true);
});

test("a Python that is not there is named, with the setting", async () => {
  kernel.close();
  kernel = make("/no/such/python");
  const view = new Watched();
  await expect(run("1", {}, view)).rejects.toMatchObject({
    code: "machine.missing_tool",
    message: expect.stringContaining("bascule.python") as string,
  });
  expect(await view.ended).not.toBe(null);
});

test("output past the limit keeps head and tail and the log the rest", async () => {
  const answer = await run("for n in range(10_000): print(n)", { output_limit: 1000 });
  const about = meta(answer);
  expect(answer.content.startsWith("0\n1\n")).toBe(true);
  expect(answer.content.endsWith("9998\n9999")).toBe(true);
  const log = fs.readFileSync(about.log_path ?? "", "utf8").slice(about.log_start, about.log_end);
  expect(log.split("\n").length).toBe(10_001);
});

test("the kernel that was idle longest makes room for a new agent", async () => {
  const shown = new Watched();
  const kernels = new Kernels({
    kernel: (agent) => make(PYTHON, agent)["settings"],
    maxKernels: () => 2,
    show: () => shown,
  });
  const ask = (agent: string, code: string): Promise<ObservationBody> =>
    kernels.run(agent, { code, cwd: directory }, () => undefined, new AbortController().signal);
  await ask("one", "x = 1");
  await ask("two", "x = 2");
  await ask("one", "x");
  await ask("three", "x = 3");
  expect((await ask("one", "x")).content).toContain("1\n");
  const afterwards = await ask("two", "'x' in globals()");
  expect(afterwards.content).toContain("False\n");
  expect(meta(afterwards).new_kernel).toBe(true);
  kernels.dispose();
});

test("the Python is the one that is set, the workspace's, or the system's", () => {
  expect(findPython("/some/python", directory)).toBe("/some/python");
  expect(findPython("", directory)).toMatch(/python3?$/);
  fs.mkdirSync(path.join(directory, ".venv/bin"), { recursive: true });
  fs.writeFileSync(path.join(directory, ".venv/bin/python"), "");
  expect(findPython("", directory)).toBe(path.join(directory, ".venv/bin/python"));
});
