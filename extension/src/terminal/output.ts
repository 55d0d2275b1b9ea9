/** Collects the output of a command for one answer: all of it, or its head and tail. */

/** Bytes kept if there is no limit. Of larger output, only head and tail are kept. */
export const WHOLE = 256 << 20;

const MAX_CHARACTER_BYTES = 4;
/** Characters of the limit that are reserved for the note about the bytes left out. */
const NOTE = 200;

export interface TakenOutput {
  head: string;
  /** Empty unless bytes were left out between head and tail. */
  tail: string;
  /** Bytes, left-out part included. */
  size: number;
  leftOut: number;
}

/**
 * Collects bytes and returns text. The limit bounds the memory, however much the command prints.
 * `limit` counts characters (code points); 0 means all. A character split between two answers goes
 * whole into the later one.
 */
export class CommandOutput {
  private readonly room: number;
  private head: Buffer[] = [];
  private tail: Buffer[] = [];
  private headSize = 0;
  private tailSize = 0;
  private bytes = 0;
  private dropped = false;

  constructor(private readonly limit: number) {
    this.room = limit ? limit * MAX_CHARACTER_BYTES : WHOLE;
  }

  add(data: Buffer): void {
    this.bytes += data.length;
    if (this.headSize < this.room) {
      this.head.push(data);
      this.headSize += data.length;
      return;
    }
    this.tail.push(data);
    this.tailSize += data.length;
    for (let first = this.tail[0]; first; first = this.tail[0]) {
      if (this.tailSize - first.length < this.room) break;
      this.tail.shift();
      this.tailSize -= first.length;
      this.dropped = true;
    }
  }

  /** The first piece that was not taken yet. */
  get beginning(): string {
    return this.head[0]?.toString("utf8") ?? "";
  }

  /** Takes the output since the last call. Unless `final`, an incomplete last character is kept. */
  take(final: boolean): TakenOutput {
    let head = Buffer.concat(this.head);
    let tail = Buffer.concat(this.tail);
    let size = this.bytes;
    const { dropped } = this;
    this.clear();
    if (!final) {
      const end = tail.length ? tail : head;
      const kept = unfinished(end);
      if (kept) {
        this.add(end.subarray(end.length - kept));
        size -= kept;
        if (tail.length) tail = tail.subarray(0, tail.length - kept);
        else head = head.subarray(0, head.length - kept);
      }
    }
    return dropped ? this.parted(head, fromBoundary(tail), size) : this.whole(head, tail, size);
  }

  private whole(head: Buffer, tail: Buffer, size: number): TakenOutput {
    const all = tail.length ? Buffer.concat([head, tail]) : head;
    const text = () => all.toString("utf8");
    if (!this.limit || all.length <= this.limit)
      return { head: text(), tail: "", size, leftOut: 0 };
    if (countCharacters(all) <= this.limit) return { head: text(), tail: "", size, leftOut: 0 };
    return this.parted(all, all, size);
  }

  private parted(first: Buffer, last: Buffer, size: number): TakenOutput {
    const room = this.limit > 4 * NOTE ? this.limit - NOTE : this.limit;
    const half = Math.floor((room || 2 * first.length) / 2);
    const head = first.subarray(0, afterCharacters(first, half));
    const tail = last.subarray(beforeCharacters(last, half));
    return {
      head: head.toString("utf8"),
      tail: tail.toString("utf8"),
      size,
      leftOut: size - head.length - tail.length,
    };
  }

  private clear(): void {
    this.head = [];
    this.tail = [];
    this.headSize = this.tailSize = this.bytes = 0;
    this.dropped = false;
  }
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x80 && byte < 0xc0;
}

function countCharacters(data: Buffer): number {
  let count = 0;
  for (const byte of data) if (!isContinuation(byte)) count += 1;
  return count;
}

/** The position after the first `count` characters. */
function afterCharacters(data: Buffer, count: number): number {
  let at = 0;
  for (let left = count; left > 0 && at < data.length; left -= 1) {
    at += 1;
    while (isContinuation(data[at])) at += 1;
  }
  return at;
}

/** The position where the last `count` characters begin. */
function beforeCharacters(data: Buffer, count: number): number {
  let at = data.length;
  for (let left = count; left > 0 && at > 0; left -= 1) {
    at -= 1;
    while (at > 0 && isContinuation(data[at])) at -= 1;
  }
  return at;
}

/** Length of the incomplete character at the end of `data`; 0 if there is none. */
function unfinished(data: Buffer): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back <= data.length; back += 1) {
    const byte = data[data.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) {
      const wanted = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
      return byte < 0xf8 && back < wanted ? back : 0;
    }
  }
  return 0;
}

/** `data` from its first whole character on. */
function fromBoundary(data: Buffer): Buffer {
  for (let start = 0; start < MAX_CHARACTER_BYTES && start < data.length; start += 1)
    if (!isContinuation(data[start])) return data.subarray(start);
  return data;
}
