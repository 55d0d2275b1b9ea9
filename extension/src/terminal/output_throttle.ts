/** Limits how much output is drawn per second. Of output beyond that, only the end is shown. */

/** Bytes shown per second, and the burst after a pause. */
const RATE = 256 << 10;
const BURST = 512 << 10;
/** Bytes of skipped output that are shown later. */
const TAIL = 4 << 10;

/** Skipped output is missing on the screen only; the log and the observation have it. */
export class OutputThrottle {
  private room = BURST;
  private isSkipping = false;
  private skipped = 0;
  private tail: Buffer = Buffer.alloc(0);

  constructor(
    private readonly show: (data: Buffer) => void,
    private readonly now: () => number = () => performance.now(),
    private last = now(),
  ) {}

  add(data: Buffer): void {
    const now = this.now();
    this.room = Math.min(BURST, this.room + ((now - this.last) / 1000) * RATE);
    this.last = now;
    if (this.isSkipping ? this.room < BURST / 2 : data.length > this.room) return this.skip(data);
    this.flush();
    this.room -= data.length;
    this.show(data);
  }

  /** Shows the end of the skipped output and how many bytes were skipped. */
  flush(): void {
    if (!this.isSkipping) return;
    const note = `\n[… ${this.skipped.toLocaleString("en")} bytes not shown here …]\n`;
    this.show(this.skipped ? Buffer.concat([Buffer.from(note), this.tail]) : this.tail);
    this.isSkipping = false;
    this.skipped = 0;
    this.tail = Buffer.alloc(0);
  }

  private skip(data: Buffer): void {
    this.isSkipping = true;
    const all = Buffer.concat([this.tail, data]);
    const cut = Math.max(0, all.length - TAIL);
    // Start at a line, so that no character or escape sequence is cut.
    const newline = cut ? all.indexOf(0x0a, cut) + 1 : 0;
    this.tail = all.subarray(newline || cut);
    this.skipped += all.length - this.tail.length;
  }
}
