/** Collects the output of a command for one answer: all of it, or its head and tail. */

/** Bytes kept if `maxChars` is 0. Of larger output, only head and tail are kept. */
export const MAX_UNLIMITED_BYTES = 256 << 20;

const MAX_CHARACTER_BYTES = 4;
/** Characters of `maxChars` that are reserved for the note about the bytes left out. */
const NOTE_CHARS = 200;

export interface TakenOutput {
  head: string;
  /** Empty unless bytes were left out between head and tail. */
  tail: string;
  /** Bytes of the output, including those left out. */
  totalBytes: number;
  leftOutBytes: number;
}

/**
 * Collects bytes and returns text. The limit bounds the memory, however much the command prints.
 * `maxChars` counts characters (code points); 0 means all. A character whose bytes are split
 * between two answers is complete in the later answer.
 */
export class CommandOutput {
  private readonly maxHeadBytes: number;
  private head: Buffer[] = [];
  private tail: Buffer[] = [];
  private headBytes = 0;
  private tailBytes = 0;
  private totalBytes = 0;
  private hasDropped = false;

  constructor(private readonly maxChars: number) {
    this.maxHeadBytes = maxChars ? maxChars * MAX_CHARACTER_BYTES : MAX_UNLIMITED_BYTES;
  }

  add(data: Buffer): void {
    this.totalBytes += data.length;
    if (this.headBytes < this.maxHeadBytes) {
      this.head.push(data);
      this.headBytes += data.length;
      return;
    }
    this.tail.push(data);
    this.tailBytes += data.length;
    for (let first = this.tail[0]; first; first = this.tail[0]) {
      if (this.tailBytes - first.length < this.maxHeadBytes) break;
      this.tail.shift();
      this.tailBytes -= first.length;
      this.hasDropped = true;
    }
  }

  /** The first piece of output since the last `take`. */
  get beginning(): string {
    return this.head[0]?.toString("utf8") ?? "";
  }

  /**
   * Takes the output since the last call. Unless `final`, an incomplete last character stays here.
   */
  take(final: boolean): TakenOutput {
    let head = Buffer.concat(this.head);
    let tail = Buffer.concat(this.tail);
    let totalBytes = this.totalBytes;
    const { hasDropped } = this;
    this.clear();
    if (!final) {
      const end = tail.length ? tail : head;
      const kept = unfinishedBytes(end);
      if (kept) {
        this.add(end.subarray(end.length - kept));
        totalBytes -= kept;
        if (tail.length) tail = tail.subarray(0, tail.length - kept);
        else head = head.subarray(0, head.length - kept);
      }
    }
    return hasDropped
      ? this.headAndTail(head, fromBoundary(tail), totalBytes)
      : this.whole(head, tail, totalBytes);
  }

  private whole(head: Buffer, tail: Buffer, totalBytes: number): TakenOutput {
    const all = tail.length ? Buffer.concat([head, tail]) : head;
    const text = () => all.toString("utf8");
    if (!this.maxChars || all.length <= this.maxChars)
      return { head: text(), tail: "", totalBytes, leftOutBytes: 0 };
    if (countCharacters(all) <= this.maxChars)
      return { head: text(), tail: "", totalBytes, leftOutBytes: 0 };
    return this.headAndTail(all, all, totalBytes);
  }

  private headAndTail(first: Buffer, last: Buffer, totalBytes: number): TakenOutput {
    const keptChars = this.maxChars > 4 * NOTE_CHARS ? this.maxChars - NOTE_CHARS : this.maxChars;
    const half = Math.floor((keptChars || 2 * first.length) / 2);
    const head = first.subarray(0, afterCharacters(first, half));
    const tail = last.subarray(beforeCharacters(last, half));
    return {
      head: head.toString("utf8"),
      tail: tail.toString("utf8"),
      totalBytes,
      leftOutBytes: totalBytes - head.length - tail.length,
    };
  }

  private clear(): void {
    this.head = [];
    this.tail = [];
    this.headBytes = this.tailBytes = this.totalBytes = 0;
    this.hasDropped = false;
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
function unfinishedBytes(data: Buffer): number {
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
