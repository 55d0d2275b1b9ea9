/**
 * One agent's IPython kernel: runs cells and returns observations, like the sandbox's
 * `ipython/kernel.py`.
 */
import { Failure } from "../common/failure";
import { observe, type ArgsOf, type CellMetadata, type ObservationBody } from "../protocol";
import { DiskLog } from "../terminal/disk_log";
import { leftOut } from "../terminal/notes";
import { CommandOutput } from "../terminal/output";
import * as notes from "./notes";
import {
  KernelWorker,
  type CellError,
  type CellResult,
  type KernelMessage,
  type RichOutput,
} from "./kernel_worker";

/** The kernel's name in `interrupt` actions and progress messages, where shells have names. */
export const IPYTHON = "ipython";

/** A `run_ipython` action as a kernel needs it. */
export type CellRequest = ArgsOf<"run_ipython"> & { timeout?: number | undefined; cwd: string };

/** Shows a cell to the user. The cell may continue after its answer was sent. */
export interface CellView {
  begun(count: number): void;
  output(output: RichOutput): void;
  over(error: CellError | null): void;
}

export interface KernelSettings {
  /** Called when the kernel starts. */
  python: () => string;
  script: string;
  directory: string;
  logFile: string;
  logLimit: number;
  outputLimit: number;
  workingDir: string;
  env: Record<string, string>;
  followShell: boolean;
}

type OnPiece = (offset: number, data: Buffer) => void;

interface Pending {
  output: CommandOutput;
  onPiece: OnPiece | undefined;
  logStart: number | undefined;
  began: number;
  done: (done: CellResult) => void;
}

export class Kernel {
  /** Time of the last use, from `performance.now()`. */
  usedAt = performance.now();
  private readonly log: DiskLog;
  private worker: Promise<KernelWorker> | undefined;
  private alive: KernelWorker | undefined;
  private isClosed = false;
  private python = "";
  private cwd = "";
  private number = 0;
  private readonly pendingCells = new Map<string, Pending>();
  private readonly interrupts = new Map<string, (wasRunning: boolean) => void>();
  private readonly views = new Map<string, CellView>();

  /** `hadKernel`: an earlier kernel of this agent was closed, and the agent must be informed. */
  constructor(
    private readonly settings: KernelSettings,
    private hadKernel = false,
  ) {
    this.log = new DiskLog(settings.logFile, settings.logLimit);
  }

  get isRunning(): boolean {
    return this.pendingCells.size > 0 || this.views.size > 0;
  }

  async run(
    request: CellRequest,
    view: CellView | undefined,
    onPiece?: OnPiece,
    signal?: AbortSignal,
  ): Promise<ObservationBody<"run_ipython">> {
    const limit = request.output_limit ?? this.settings.outputLimit;
    if (limit < 0)
      throw new Failure(
        "shell.command_invalid",
        `output_limit is ${limit}; it is a number of characters, or 0 for no limit`,
      );
    this.usedAt = performance.now();
    const worker = await this.ready(view);
    if (signal?.aborted) {
      view?.over(notRun("it was cancelled"));
      throw cancelled();
    }
    const id = String((this.number += 1));
    const abort = (): void => worker.send({ op: "cancel", id });
    if (view && !request.is_input) this.views.set(id, view);
    const done = await new Promise<CellResult>((resolve) => {
      const output = new CommandOutput(limit);
      const began = performance.now();
      this.pendingCells.set(id, { output, onPiece, logStart: undefined, began, done: resolve });
      signal?.addEventListener("abort", abort, { once: true });
      worker.send({
        op: "run",
        id,
        code: request.code,
        cwd: this.settings.followShell ? request.cwd : null,
        start_dir: this.settings.workingDir,
        timeout: request.timeout ?? null,
        init: request.kernel_init_code ?? "",
        is_input: request.is_input ?? false,
      });
    });
    signal?.removeEventListener("abort", abort);
    const pending = this.pendingCells.get(id);
    this.pendingCells.delete(id);
    this.usedAt = performance.now();
    // In these states no more output follows, so the cell's view ends here.
    if (["refused", "lost", "cancelled"].includes(done.state))
      this.endView(id, done.error ?? notRun(done.notes.join(" ") || `it was ${done.state}`));
    if (done.state === "cancelled" || !pending) throw cancelled();
    return this.observation(request, pending, done);
  }

  async interrupt(kill: boolean): Promise<boolean> {
    const worker = this.alive;
    if (!worker?.isAlive) return false;
    const id = String((this.number += 1));
    return new Promise((resolve) => {
      this.interrupts.set(id, resolve);
      worker.send({ op: "interrupt", id, kill });
    });
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.alive?.close();
    this.workerEnded();
    this.log.close();
  }

  /** The worker; starts it if needed. */
  private async ready(view: CellView | undefined): Promise<KernelWorker> {
    if (this.isClosed) throw new Failure("shell.closed", "The kernel was closed with the window");
    if (this.alive?.isAlive) return this.alive;
    this.worker ??= this.start();
    try {
      return await this.worker;
    } catch (error) {
      view?.over({ name: "IPython did not start", value: String(error) });
      throw error;
    } finally {
      this.worker = undefined;
    }
  }

  private async start(): Promise<KernelWorker> {
    const { python, script, directory, workingDir, env } = this.settings;
    const worker = await KernelWorker.start(
      { python: python(), script, directory, cwd: workingDir, env, isFirst: !this.hadKernel },
      (message) => this.handle(message),
      () => this.alive === worker && this.workerEnded(),
    );
    this.alive = worker;
    this.hadKernel = true;
    this.python = worker.python;
    if (this.isClosed) worker.close();
    return worker;
  }

  private handle(message: KernelMessage): void {
    switch (message.op) {
      case "text":
        return this.show(message.id, Buffer.from(message.text));
      case "begun":
        return this.views.get(message.cell)?.begun(message.count);
      case "output":
        return this.views.get(message.cell)?.output(message.output);
      case "over":
        return this.endView(message.cell, message.error);
      case "interrupted":
        this.interrupts.get(message.id)?.(message.was_running);
        this.interrupts.delete(message.id);
        return;
      case "done":
        return this.pendingCells.get(message.id)?.done(message);
    }
  }

  private show(id: string, data: Buffer): void {
    const pending = this.pendingCells.get(id);
    if (!pending || this.isClosed) return;
    const offset = this.log.endOffset;
    pending.logStart ??= offset;
    this.log.append(data);
    pending.output.add(data);
    pending.onPiece?.(offset, data);
  }

  private endView(cell: string, error: CellError | null): void {
    this.views.get(cell)?.over(error);
    this.views.delete(cell);
  }

  private workerEnded(): void {
    const gone = { name: "KernelDied", value: notes.WORKER_GONE };
    for (const [id, { done }] of [...this.pendingCells]) done({ ...GONE, id });
    for (const resolve of this.interrupts.values()) resolve(true);
    this.interrupts.clear();
    for (const cell of [...this.views.keys()]) this.endView(cell, gone);
  }

  private observation(
    request: CellRequest,
    pending: Pending,
    done: CellResult,
  ): ObservationBody<"run_ipython"> {
    if (done.state === "lost")
      throw new Failure("sandbox.start_failed", `IPython did not start: ${done.notes.join(" ")}`);
    this.cwd = done.cwd || this.cwd || request.cwd;
    const taken = pending.output.take(true);
    const start = pending.logStart ?? this.log.endOffset;
    const end = start + taken.totalBytes;
    let text = taken.head;
    if (taken.leftOutBytes)
      text += leftOut(taken.leftOutBytes, this.log.path, start, end) + taken.tail;
    let parts = [text.trimEnd(), ...done.notes];
    if (done.state === "done" && parts.every((part) => !part)) parts = [notes.NO_OUTPUT];
    if (request.include_extra ?? true) parts.push(notes.locationNote(this.cwd, this.python));
    const metadata: CellMetadata = {
      state: done.state as Exclude<CellResult["state"], "cancelled" | "lost">,
      error_name: done.error?.name ?? "",
      error_value: done.error?.value ?? "",
      timed_out: done.timed_out,
      new_kernel: done.new_kernel,
      execution_count: done.count,
      working_dir: this.cwd,
      py_interpreter_path: this.python,
      output_bytes: taken.totalBytes,
      left_out_bytes: taken.leftOutBytes,
      log_start: start,
      log_end: end,
      log_path: this.log.path,
      duration: (performance.now() - pending.began) / 1000,
    };
    const images = done.images.length ? done.images : null;
    const extras = { code: request.code, image_urls: images, metadata };
    const content = parts.filter(Boolean).join("\n");
    return observe("run_ipython", content, extras, done.state === "done");
  }
}

const GONE: Omit<CellResult, "id"> = {
  op: "done",
  state: "died",
  error: null,
  timed_out: false,
  new_kernel: false,
  notes: [notes.WORKER_GONE],
  images: [],
  cwd: "",
  count: null,
};

/** For the view of a cell that did not run, or of which no more is known. */
function notRun(why: string): CellError {
  return { name: "NotRun", value: why };
}

function cancelled(): Failure {
  return new Failure("action.cancelled", "The cell was cancelled and interrupted");
}
