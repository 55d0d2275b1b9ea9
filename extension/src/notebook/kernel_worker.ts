/** The worker process of a kernel, `ipython_worker.py`. Messages are JSON lines over pipes. */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { StringDecoder } from "node:string_decoder";
import { Failure } from "../common/failure";

/** Maximum characters of the worker's stderr that are kept for error messages. */
const MAX_STDERR_CHARS = 2000;

/** An exception in a cell. */
export interface CellError {
  name: string;
  value: string;
}

/** A cell output in nbformat. */
export interface RichOutput {
  output_type: string;
  name?: string;
  text?: string;
  data?: Record<string, unknown>;
  transient?: { display_id?: string };
  ename?: string;
  evalue?: string;
  traceback?: string[];
  wait?: boolean;
}

export interface CellResult {
  op: "done";
  id: string;
  state:
    "done" | "failed" | "running" | "input" | "died" | "refused" | "idle" | "cancelled" | "lost";
  error: CellError | null;
  timed_out: boolean;
  new_kernel: boolean;
  notes: string[];
  images: string[];
  cwd: string;
  count: number | null;
}

export type KernelMessage =
  | { op: "ready"; python: string }
  | { op: "failed"; message: string; missing: string[] }
  | { op: "text"; id: string; text: string }
  | { op: "begun"; cell: string; count: number }
  | { op: "output"; cell: string; output: RichOutput }
  | { op: "over"; cell: string; error: CellError | null }
  | { op: "interrupted"; id: string; was_running: boolean }
  | CellResult;

export interface KernelWorkerSettings {
  python: string;
  script: string;
  /** For the kernel's sockets. The worker creates and removes it. */
  directory: string;
  cwd: string;
  env: Record<string, string>;
  /** False if the variables of an earlier worker are lost, and the agent must be informed. */
  isFirst: boolean;
}

/** Calls `onMessage` for each message, and `onEnd` once when a started worker has ended. */
export class KernelWorker {
  python = "";
  isAlive = true;
  private rest = "";
  private stderrTail = "";
  private first: ((message: KernelMessage | undefined) => void) | undefined;

  private constructor(
    private readonly child: ChildProcessWithoutNullStreams,
    private readonly onMessage: (message: KernelMessage) => void,
    private readonly onEnd: () => void,
  ) {
    const decoder = new StringDecoder("utf8");
    child.stdout.on("data", (data: Buffer) => this.read(decoder.write(data)));
    child.stderr.on("data", (data: Buffer) => {
      this.stderrTail = (this.stderrTail + data.toString()).slice(-MAX_STDERR_CHARS);
    });
    child.stdin.on("error", () => undefined); // the worker has ended; `close` reports that
    child.on("error", (error) => {
      this.stderrTail += error.message;
      this.ended();
    });
    child.on("close", () => this.ended());
  }

  /** Fails with `machine.missing_tool` if the interpreter or ipykernel is missing. */
  static async start(
    settings: KernelWorkerSettings,
    onMessage: (message: KernelMessage) => void,
    onEnd: () => void,
  ): Promise<KernelWorker> {
    const { python, script, directory, cwd, env } = settings;
    const flags = settings.isFirst ? ["--rich"] : ["--rich", "--again"];
    const child = spawn(python, [script, directory, ...flags], { cwd, env });
    const worker = new KernelWorker(child, onMessage, onEnd);
    const message = await new Promise<KernelMessage | undefined>(
      (resolve) => (worker.first = resolve),
    );
    if (message?.op === "failed") {
      worker.close();
      throw new Failure(
        "machine.missing_tool",
        `${message.message}; or set bascule.python to a Python that has it`,
        { missing: message.missing },
      );
    }
    if (message?.op !== "ready")
      throw new Failure(
        "machine.missing_tool",
        `IPython did not start with '${python}' (set bascule.python to a Python that has ` +
          `ipykernel): ${worker.stderrTail.trim() || "it printed nothing"}`,
      );
    worker.python = message.python;
    return worker;
  }

  send(message: Record<string, unknown>): void {
    if (this.isAlive) this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Closes the worker's stdin; the worker then ends its kernel and exits. */
  close(): void {
    this.child.stdin.end();
  }

  private read(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const message = JSON.parse(line) as KernelMessage;
      if (this.first) this.begin(message);
      else this.onMessage(message);
    }
  }

  private begin(message: KernelMessage | undefined): void {
    this.first?.(message);
    this.first = undefined;
  }

  private ended(): void {
    if (!this.isAlive) return;
    this.isAlive = false;
    if (this.first) this.begin(undefined);
    else this.onEnd();
  }
}
