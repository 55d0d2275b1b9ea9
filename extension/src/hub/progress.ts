import type { ProgressMessage } from "./messages";

/** Maximum bytes of output in one message. */
const MAX_MESSAGE_BYTES = 64 << 10;

/**
 * Batches output of one event loop turn, so that a busy program does not flood the hub with
 * messages.
 */
export class ProgressBatch {
  private shell = "";
  private offset = 0;
  private pieces: Buffer[] = [];
  private size = 0;
  private scheduled: NodeJS.Immediate | undefined;

  constructor(
    private readonly cause: string,
    private readonly send: (message: ProgressMessage) => void,
  ) {}

  add(shell: string, offset: number, data: Buffer): void {
    for (let at = 0; at < data.length; at += MAX_MESSAGE_BYTES)
      this.addPiece(shell, offset + at, data.subarray(at, at + MAX_MESSAGE_BYTES));
  }

  private addPiece(shell: string, offset: number, data: Buffer): void {
    const follows = shell === this.shell && offset === this.offset + this.size;
    if (this.size && (!follows || this.size + data.length > MAX_MESSAGE_BYTES)) this.flush();
    if (!this.size) [this.shell, this.offset] = [shell, offset];
    this.pieces.push(data);
    this.size += data.length;
    this.scheduled ??= setImmediate(() => this.flush());
  }

  flush(): void {
    clearImmediate(this.scheduled);
    this.scheduled = undefined;
    if (!this.size) return;
    const data = Buffer.concat(this.pieces).toString("base64");
    this.pieces = [];
    this.size = 0;
    this.send({ cause: this.cause, shell: this.shell, offset: this.offset, data });
  }
}
