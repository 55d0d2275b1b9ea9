import type { ProgressMessage } from "./contract";

const MOST = 64 << 10;

/** Gathers pieces of output that come in one go, so that a busy program does not become a flood of messages. */
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
    if (this.size && (shell !== this.shell || offset !== this.offset + this.size)) this.flush();
    if (!this.size) [this.shell, this.offset] = [shell, offset];
    this.pieces.push(data);
    this.size += data.length;
    if (this.size >= MOST) this.flush();
    else this.scheduled ??= setImmediate(() => this.flush());
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
