/** The process of a kernel. It runs `ipython_worker.py` and exchanges JSON lines with it. */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { StringDecoder } from "node:string_decoder";
import { Failure } from "../common/failure";

/** Characters of its stderr that are kept for error messages. */
const LAST_WORDS = 2000;

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
  /** False: an earlier worker's variables are lost, and the agent must be told. */
  isFirst: boolean;
}

/** `onMessage` receives its messages; `onEnd` is called once, when it has ended. */
export class KernelWorker {
  python = "";
  isAlive = true;
  private rest = "";
  private words = "";
  private first: ((message: KernelMessage | undefined) => void) | undefined;

  private constructor(
    private readonly child: ChildProcessWithoutNullStreams,
    private readonly onMessage: (message: KernelMessage) => void,
    private readonly onEnd: () => void,
  ) {
    const decoder = new StringDecoder("utf8");
    child.stdout.on("data", (data: Buffer) => this.read(decoder.write(data)));
    child.stderr.on("data", (data: Buffer) => {
      this.words = (this.words + data.toString()).slice(-LAST_WORDS);
    });
    child.stdin.on("error", () => undefined); // it has ended, which `close` reports
    child.on("error", (error) => {
      this.words += error.message;
      this.ended();
    });
    child.on("close", () => this.ended());
  }

  /** Fails with `machine.missing_tool` when the interpreter or ipykernel is not there. */
  static async start(
    settings: KernelWorkerSettings,
    onMessage: (message: KernelMessage) => void,
    onEnd: () => void,
  ): Promise<KernelWorker> {
    const { python, script, directory, cwd, env } = settings;
    const flags = settings.isFirst ? ["--rich"] : ["--rich", "--again"];
    const child = spawn(python, [script, directory, ...flags], { cwd, env });
    const worker = new KernelWorker(child, onMessage, onEnd);
    const said = await new Promise<KernelMessage | undefined>(
      (resolve) => (worker.first = resolve),
    );
    if (said?.op === "failed") {
      worker.close();
      throw new Failure(
        "machine.missing_tool",
        `${said.message}; or set bascule.python to a Python that has it`,
        { missing: said.missing },
      );
    }
    if (said?.op !== "ready")
      throw new Failure(
        "machine.missing_tool",
        `IPython did not start with '${python}' (set bascule.python to a Python that has ` +
          `ipykernel): ${worker.words.trim() || "it said nothing"}`,
      );
    worker.python = said.python;
    return worker;
  }

  send(order: Record<string, unknown>): void {
    if (this.isAlive) this.child.stdin.write(`${JSON.stringify(order)}\n`);
  }

  /** Closes its stdin; the worker then ends its kernel and exits. */
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
