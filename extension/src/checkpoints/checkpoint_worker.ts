/**
 * The process that has the checkpoint store: `bascule.checkpoints` in Python, which the extension
 * contains. See `src/bascule/checkpoints/worker.py` for the messages.
 */
import { Failure, messageOf } from "../common/failure";
import { JsonLinesProcess } from "../common/json_lines_process";

export interface WorkerSettings {
  /** Interpreters to try, in this order. The worker needs Python 3.11 or newer. */
  pythons: readonly string[];
  script: string;
  /** Directory of the store. */
  store: string;
  workspace: string;
  mostBytes: number;
}

export type WriteResult = { written: boolean } | { refused: string };

/** Files that are open in the editor. A restore changes these files through the editor. */
export interface EditorFiles {
  /**
   * Absolute paths. `unsaved`: open files with unsaved changes. `saved`: open files; it may contain
   * files of `unsaved`, which the worker ignores here.
   */
  openFiles(): { unsaved: string[]; saved: string[] };
  /**
   * Replaces the text of an open file and saves it. `written: false`: it would save other bytes.
   */
  write(path: string, content: Buffer): Promise<WriteResult>;
}

interface WorkerMessage {
  op?: "ready" | "failed" | "notice" | "open_files" | "write";
  text?: string;
  /** Only in an answer. */
  id?: number;
  result?: unknown;
  error?: { code: string; message: string };
  /** Only in a question. */
  ask?: number;
  path?: string;
  content?: string;
}

interface WorkerRequest {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** One process, until it ends or is closed. It executes requests in their order. */
export class CheckpointWorker {
  private readonly process: JsonLinesProcess<WorkerMessage>;
  private readonly pending = new Map<number, WorkerRequest>();
  private requests = 0;
  private isReady = false;
  private isClosed = false;
  private started!: (why: string | undefined) => void;

  private constructor(
    python: string,
    { script, store, workspace, mostBytes }: WorkerSettings,
    private readonly files: EditorFiles,
    private readonly onNotice: (text: string) => void,
    private readonly onEnd: (why: string) => void,
  ) {
    this.process = new JsonLinesProcess<WorkerMessage>(
      {
        program: python,
        args: ["-I", script, store, workspace, String(mostBytes)],
        cwd: "/",
        env: process.env,
      },
      (message) => this.receive(message),
      (why) => this.ended(why),
    );
  }

  /**
   * Fails with `machine.missing_tool` if no interpreter can run the worker. `onEnd` is called if a
   * started worker ends without `close`.
   */
  static async start(
    settings: WorkerSettings,
    files: EditorFiles,
    onNotice: (text: string) => void,
    onEnd: (why: string) => void,
  ): Promise<CheckpointWorker> {
    const reasons: string[] = [];
    for (const python of settings.pythons) {
      const worker = new CheckpointWorker(python, settings, files, onNotice, onEnd);
      const reason = await new Promise<string | undefined>((resolve) => (worker.started = resolve));
      if (reason === undefined) return worker;
      worker.close();
      reasons.push(`${python}: ${reason}`);
    }
    throw new Failure(
      "machine.missing_tool",
      `checkpoints need Python 3.11 or newer (setting bascule.python); ${reasons.join("; ") || "there is none"}`,
    );
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  get isAlive(): boolean {
    return this.process.isAlive;
  }

  /** Fails with the worker's error, or with `checkpoint.unavailable` if the worker ends. */
  request<T>(op: string, more: object = {}): Promise<T> {
    if (!this.isAlive) return Promise.reject(lost(""));
    this.requests += 1;
    const id = this.requests;
    const answered = new Promise<unknown>((resolve, reject) =>
      this.pending.set(id, { resolve, reject }),
    );
    this.process.send({ id, op, ...more });
    return answered as Promise<T>;
  }

  /** The worker records what runs up to now, and ends. */
  close(): void {
    this.isClosed = true;
    this.process.close();
  }

  private receive(message: WorkerMessage): void {
    if (message.ask !== undefined) void this.answer(message.ask, message);
    else if (message.id !== undefined) this.settle(message.id, message);
    else if (message.op === "ready") this.ready();
    else if (message.op === "failed") this.started(message.text ?? "it failed");
    else if (message.op === "notice") this.onNotice(message.text ?? "");
  }

  private ready(): void {
    this.isReady = true;
    this.started(undefined);
  }

  private settle(id: number, { result, error }: WorkerMessage): void {
    const request = this.pending.get(id);
    this.pending.delete(id);
    if (error) request?.reject(new Failure(error.code, error.message));
    else request?.resolve(result);
  }

  private async answer(ask: number, { op, path = "", content = "" }: WorkerMessage): Promise<void> {
    if (op === "open_files") {
      this.process.send({ answer: ask, ...this.files.openFiles() });
      return;
    }
    const written = await this.files
      .write(path, Buffer.from(content, "base64"))
      .catch((error: unknown): WriteResult => ({ refused: messageOf(error) }));
    this.process.send({ answer: ask, ...written });
  }

  private ended(why: string): void {
    if (!this.isReady) return this.started(why || "it ended without a message");
    if (!this.isClosed) this.onEnd(why);
    for (const request of this.pending.values()) request.reject(lost(why));
    this.pending.clear();
  }
}

function lost(why: string): Failure {
  const reason = why ? `: ${why}` : "";
  return new Failure(
    "checkpoint.unavailable",
    `The process that records checkpoints ended${reason}; the next action starts it again`,
  );
}
