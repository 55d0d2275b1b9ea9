/**
 * Follows a trace file while a net writes it. The file is private, because it contains the net's
 * tokens, and is removed after the run.
 */
import { watch, type FSWatcher } from "node:fs";
import { open, rm, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { makeTemporary } from "../common/temporary_directories";

const MAX_READ_BYTES = 1 << 20;

export class Trace {
  private watcher: FSWatcher | undefined;
  private reading = Promise.resolve();
  private isToRead = false;
  private offset = 0;
  private rest = Buffer.alloc(0);

  private constructor(
    private readonly directory: string,
    readonly file: string,
    private readonly handle: FileHandle,
    private readonly onLines: (lines: string[]) => void,
    private readonly onError: (error: unknown) => void,
  ) {}

  /** Creates the file for a net to write to. Lines arrive in batches, in order. */
  static async begin(
    onLines: (lines: string[]) => void,
    onError: (error: unknown) => void,
  ): Promise<Trace> {
    const directory = makeTemporary("trace");
    const file = join(directory, "trace.jsonl");
    await writeFile(file, "", { mode: 0o600 });
    const trace = new Trace(directory, file, await open(file), onLines, onError);
    trace.watcher = watch(file, () => trace.readSoon());
    trace.watcher.on("error", onError);
    return trace;
  }

  /** Call after the run: reads the rest, then removes the file. */
  async end(): Promise<void> {
    this.watcher?.close();
    this.readSoon();
    await this.reading;
    await this.handle.close();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** Several notifications during a read cause only one more read. */
  private readSoon(): void {
    if (this.isToRead) return;
    this.isToRead = true;
    this.reading = this.reading.then(() => {
      this.isToRead = false;
      return this.read().catch(this.onError);
    });
  }

  private async read(): Promise<void> {
    const buffer = Buffer.alloc(MAX_READ_BYTES);
    for (;;) {
      const { bytesRead } = await this.handle.read(buffer, 0, buffer.length, this.offset);
      if (!bytesRead) return;
      this.offset += bytesRead;
      const all = Buffer.concat([this.rest, buffer.subarray(0, bytesRead)]);
      const end = all.lastIndexOf(10) + 1;
      this.rest = all.subarray(end);
      const text = all.subarray(0, end).toString();
      if (text) this.onLines(text.trimEnd().split("\n"));
    }
  }
}
