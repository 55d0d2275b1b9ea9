/** A shell's log on disk: every byte of output, addressed by offset, limited in size. */
import * as fs from "node:fs";

const BLOCK = 4096;

/**
 * A position in the log is a file offset, so `tail -c +N` finds the bytes that an observation
 * refers to. Beyond `limit` the oldest part is dropped: the file is truncated and the kept part is
 * written at its old offset, which leaves a sparse file. A full disk stops the log, not the shell.
 */
export class DiskLog {
  private readonly descriptor: number;
  private start = 0;
  private size = 0;
  private broken = false;

  constructor(
    readonly path: string,
    private readonly limit: number,
  ) {
    this.descriptor = fs.openSync(path, "w+", 0o600);
  }

  get end(): number {
    return this.size;
  }

  append(data: Buffer): void {
    const at = this.size;
    this.size += data.length;
    if (this.broken) return;
    try {
      fs.writeSync(this.descriptor, data, 0, data.length, at);
      if (this.size - this.start > this.limit + this.limit / 8) this.drop(this.size - this.limit);
    } catch {
      this.broken = true;
    }
  }

  close(): void {
    fs.closeSync(this.descriptor);
    fs.rmSync(this.path, { force: true });
  }

  private drop(until: number): void {
    const position = until - (until % BLOCK);
    const kept = Buffer.alloc(this.size - position);
    fs.readSync(this.descriptor, kept, 0, kept.length, position);
    fs.ftruncateSync(this.descriptor, 0);
    fs.writeSync(this.descriptor, kept, 0, kept.length, position);
    this.start = position;
  }
}
