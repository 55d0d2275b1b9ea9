/** Limits how much output is drawn per second. Of output above the limit, only the end is shown. */

/** Bytes that may be shown per second, and at once after a pause. */
const BYTES_PER_SECOND = 256 << 10;
const MAX_BURST_BYTES = 512 << 10;
/** Maximum bytes from the end of skipped output that are shown later. */
const MAX_TAIL_BYTES = 4 << 10;

/** Skipped output is missing on the screen only; the log and the observation have it. */
export class OutputThrottle {
  /** Bytes that may be shown now. Grows with time. */
  private bytesAllowed = MAX_BURST_BYTES;
  private isSkipping = false;
  private skippedBytes = 0;
  private tail: Buffer = Buffer.alloc(0);

  constructor(
    private readonly show: (data: Buffer) => void,
    private readonly now: () => number = () => performance.now(),
    private lastTime = now(),
  ) {}

  add(data: Buffer): void {
    const now = this.now();
    this.bytesAllowed = Math.min(
      MAX_BURST_BYTES,
      this.bytesAllowed + ((now - this.lastTime) / 1000) * BYTES_PER_SECOND,
    );
    this.lastTime = now;
    if (this.isSkipping ? this.bytesAllowed < MAX_BURST_BYTES / 2 : data.length > this.bytesAllowed)
      return this.skip(data);
    this.flush();
    this.bytesAllowed -= data.length;
    this.show(data);
  }

  /** Shows the end of the skipped output and how many bytes were skipped. */
  flush(): void {
    if (!this.isSkipping) return;
    const note = `\n[… ${this.skippedBytes.toLocaleString("en")} bytes not shown here …]\n`;
    this.show(this.skippedBytes ? Buffer.concat([Buffer.from(note), this.tail]) : this.tail);
    this.isSkipping = false;
    this.skippedBytes = 0;
    this.tail = Buffer.alloc(0);
  }

  private skip(data: Buffer): void {
    this.isSkipping = true;
    const all = Buffer.concat([this.tail, data]);
    const cut = Math.max(0, all.length - MAX_TAIL_BYTES);
    // Start at a line, so that no character or escape sequence is cut.
    const newline = cut ? all.indexOf(0x0a, cut) + 1 : 0;
    this.tail = all.subarray(newline || cut);
    this.skippedBytes += all.length - this.tail.length;
  }
}
