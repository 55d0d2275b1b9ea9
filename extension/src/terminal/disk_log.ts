/** A shell's log on disk: the newest bytes of its output, at their offset in the whole output. */
import * as fs from "node:fs";

const BLOCK_BYTES = 4096;

/**
 * A position in the log is a file offset, so `tail -c +N` finds the bytes that an observation
 * refers to. Beyond `limit` the oldest part is dropped: the file is truncated and the kept part is
 * written at its old offset, which leaves a sparse file. If the disk
 * is full, the log stops and the shell continues.
 */
export class DiskLog {
  private readonly descriptor: number;
  /** Offset of the oldest byte that is still in the file. */
  private startOffset = 0;
  /** Number of all bytes so far, including bytes that were dropped or could not be written. */
  private _endOffset = 0;
  private hasFailed = false;

  constructor(
    readonly path: string,
    private readonly maxBytes: number,
  ) {
    this.descriptor = fs.openSync(path, "w+", 0o600);
  }

  get endOffset(): number {
    return this._endOffset;
  }

  append(data: Buffer): void {
    const at = this._endOffset;
    this._endOffset += data.length;
    if (this.hasFailed) return;
    try {
      fs.writeSync(this.descriptor, data, 0, data.length, at);
      if (this._endOffset - this.startOffset > this.maxBytes + this.maxBytes / 8)
        this.dropBefore(this._endOffset - this.maxBytes);
    } catch {
      this.hasFailed = true;
    }
  }

  close(): void {
    fs.closeSync(this.descriptor);
    fs.rmSync(this.path, { force: true });
  }

  private dropBefore(offset: number): void {
    const newStart = offset - (offset % BLOCK_BYTES);
    const kept = Buffer.alloc(this._endOffset - newStart);
    fs.readSync(this.descriptor, kept, 0, kept.length, newStart);
    fs.ftruncateSync(this.descriptor, 0);
    fs.writeSync(this.descriptor, kept, 0, kept.length, newStart);
    this.startOffset = newStart;
  }
}
