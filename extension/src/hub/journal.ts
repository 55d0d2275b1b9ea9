/**
 * A journal on disk of actions that began and ended here, so that no action runs twice.
 *
 * Each extension host writes its own file (two tabs are two hosts of one window) and reads those of
 * the others. At start, it takes over files of hosts that have ended. A line is written before an
 * action begins, after it ended, when the hub has its observation, and when its sender has it.
 *
 * An id is kept for an hour after its action ended. A sender that repeats an id says how old it is;
 * an unknown id older than an hour may have been forgotten, so it is not started. An observation is
 * kept as long as its id, unless its sender has it or all observations together are too large.
 */
import * as fs from "node:fs";
import * as path from "node:path";
import type { SentObservation } from "../protocol";

/** Milliseconds that an id is kept after its action ended. See docs/extension-protocol.md. */
export const LIFE_MS = 3_600_000;
/** The same once its sender has the answer. A repeated copy may still be on its way. */
const RECEIVED_LIFE_MS = 600_000;
/** Maximum bytes of all observations. Beyond that the oldest are dropped, but not their ids. */
export const MAX_BYTES = 64 << 20;
/** File size in bytes above which the file is compacted. */
const FILE_BYTES = 32 << 20;
/** Milliseconds within which two changes of a directory may have the same modification time. */
const CLOCK_TICK = 100;

/** `at` is in milliseconds since 1970. An `ended` line without observation: it was dropped. */
type JournalLine =
  | { begun: string; at?: number }
  | { ended: string; at?: number; observation?: SentObservation }
  | { acknowledged: string }
  | { received: string };

interface JournalEntry {
  /** When it began, or ended. */
  at: number;
  mine: boolean;
  ended: boolean;
  /** The hub has taken the observation. */
  acknowledged: boolean;
  /** The sender of the action has the observation. */
  received: boolean;
  observation?: SentObservation | undefined;
  size: number;
}

export type JournalState =
  | { state: "new" }
  | { state: "running" }
  | { state: "lost" }
  | { state: "ended"; observation: SentObservation }
  /** It was done; its observation is no longer kept. */
  | { state: "done" }
  /** Unknown: an action this old may have been forgotten. */
  | { state: "expired" };

export class Journal {
  private readonly entries = new Map<string, JournalEntry>();
  private readonly others = new Map<string, { inode: number; read: number }>();
  private listed = { names: [] as string[], changed: -1 };
  private readonly file: string;
  private descriptor: number;
  private held = 0;
  private written = 0;
  private rewriteAt = FILE_BYTES;

  constructor(
    private readonly directory: string,
    host: string,
    private readonly limits = { bytes: MAX_BYTES, fileBytes: FILE_BYTES },
    private readonly now: () => number = Date.now,
  ) {
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.file = path.join(directory, `${process.pid}.${host}.jsonl`);
    this.takeOver();
    this.descriptor = fs.openSync(this.file, "a", 0o600);
    this.rewrite();
  }

  /** `ageMs` is how long ago the id was first sent, as far as its sender says. */
  find(id: string, ageMs = 0): JournalState {
    let entry = this.entries.get(id);
    if (!entry?.ended && !entry?.mine) {
      this.readOthers();
      entry = this.entries.get(id);
    }
    if (!entry) return { state: ageMs < LIFE_MS ? "new" : "expired" };
    if (entry.observation) return { state: "ended", observation: entry.observation };
    if (entry.ended) return { state: "done" };
    return { state: entry.mine ? "running" : "lost" };
  }

  begin(id: string): void {
    this.write(this.applied({ begun: id, at: this.now() }));
    this.forget();
  }

  end(observation: SentObservation): void {
    this.write(this.applied({ ended: observation.cause, at: this.now(), observation }));
    if (this.written > this.rewriteAt) this.rewrite();
  }

  acknowledge(id: string): void {
    const entry = this.entries.get(id);
    if (!entry || entry.acknowledged) return;
    entry.acknowledged = true;
    this.write({ acknowledged: id });
  }

  /** Whoever asked for the action has its observation. */
  receive(id: string): void {
    const entry = this.entries.get(id);
    if (entry?.ended && !entry.received) this.write(this.applied({ received: id }));
  }

  /** Observations of this host that nobody has confirmed, oldest first. */
  unacknowledged(): SentObservation[] {
    return [...this.entries.values()]
      .filter((entry) => entry.mine && !entry.acknowledged)
      .flatMap((entry) => entry.observation ?? []);
  }

  close(): void {
    fs.closeSync(this.descriptor);
  }

  private write(line: JournalLine): void {
    this.written += fs.writeSync(this.descriptor, `${JSON.stringify(line)}\n`);
  }

  private applied(line: JournalLine): JournalLine {
    this.apply(line, true);
    return line;
  }

  private apply(line: JournalLine, mine: boolean): void {
    if ("begun" in line) {
      if (!this.entries.has(line.begun)) this.entries.set(line.begun, this.entry(line.at, mine));
    } else if ("ended" in line) {
      const entry = this.entries.get(line.ended) ?? this.entry(line.at, mine);
      this.entries.set(line.ended, entry);
      this.hold(entry, undefined);
      entry.ended = true;
      entry.at = line.at ?? this.now();
      if (!entry.received) this.hold(entry, line.observation);
      this.shrink();
    } else if ("acknowledged" in line) {
      const entry = this.entries.get(line.acknowledged);
      if (entry) entry.acknowledged = true;
    } else {
      const entry = this.entries.get(line.received);
      if (!entry) return;
      entry.received = true;
      this.hold(entry, undefined);
    }
  }

  private entry(at = this.now(), mine: boolean): JournalEntry {
    return { at, mine, ended: false, acknowledged: false, received: false, size: 0 };
  }

  private hold(entry: JournalEntry, observation: SentObservation | undefined): void {
    const size = observation ? Buffer.byteLength(JSON.stringify(observation)) : 0;
    this.held += size - entry.size;
    entry.size = size;
    entry.observation = observation;
  }

  /** Drops the oldest observations; their ids stay known. */
  private shrink(): void {
    if (this.held <= this.limits.bytes) return;
    for (const entry of this.entries.values()) {
      if (this.held <= this.limits.bytes) return;
      this.hold(entry, undefined);
    }
  }

  /** Removes expired ids. A running action never expires. */
  private forget(): void {
    const now = this.now();
    for (const [id, entry] of this.entries) {
      if (entry.mine && !entry.ended) continue;
      if (now - entry.at < (entry.received ? RECEIVED_LIFE_MS : LIFE_MS)) return;
      this.hold(entry, undefined);
      this.entries.delete(id);
    }
  }

  private takeOver(): void {
    for (const name of this.otherFiles()) {
      const full = path.join(this.directory, name);
      const ended = this.readFrom(name);
      if (isAlive(Number(name.split(".")[0]))) continue;
      // This host now sends what that host had ended and nobody confirmed.
      for (const id of ended) this.adopt(id);
      this.others.delete(name);
      fs.rmSync(full, { force: true });
    }
  }

  private adopt(id: string): void {
    const entry = this.entries.get(id);
    if (entry) entry.mine = true;
  }

  private readOthers(): void {
    for (const name of this.otherFiles()) this.readFrom(name);
  }

  /** Called for every action, so the directory is listed again only if it may have changed. */
  private otherFiles(): string[] {
    const changed = fs.statSync(this.directory).mtimeMs;
    if (changed === this.listed.changed) return this.listed.names;
    const own = path.basename(this.file);
    const names = fs
      .readdirSync(this.directory)
      .filter((name) => name.endsWith(".jsonl") && name !== own)
      .sort();
    // Another change may follow within the same clock tick, so a very recent time is not trusted.
    this.listed = { names, changed: Date.now() - changed > CLOCK_TICK ? changed : -1 };
    return names;
  }

  /** Returns the ids of actions that it says ended. */
  private readFrom(name: string): string[] {
    const known = this.others.get(name);
    let inode: number;
    let data: Buffer;
    try {
      const full = path.join(this.directory, name);
      const there = fs.statSync(full);
      if (there.ino === known?.inode && there.size === known.read) return [];
      inode = there.ino;
      data = fs.readFileSync(full);
    } catch {
      this.others.delete(name); // its host ended and another host took the file over
      return [];
    }
    // A new inode means that the file was rewritten. A last line without newline is still being
    // written.
    const from = inode === known?.inode ? known.read : 0;
    const fresh = data.subarray(from);
    const whole = fresh.lastIndexOf("\n") + 1;
    this.others.set(name, { inode, read: from + whole });
    const lines = fresh.subarray(0, whole).toString("utf8").split("\n").flatMap(parse);
    for (const line of lines) this.apply(line, false);
    return lines.flatMap((line) => ("ended" in line ? [line.ended] : []));
  }

  private rewrite(): void {
    const lines: JournalLine[] = [];
    for (const [id, entry] of this.entries) {
      const { at, observation } = entry;
      if (!entry.ended) lines.push({ begun: id, at });
      else lines.push({ ended: id, at, ...(observation ? { observation } : {}) });
      if (entry.acknowledged) lines.push({ acknowledged: id });
      if (entry.received) lines.push({ received: id });
    }
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    fs.closeSync(this.descriptor);
    fs.writeFileSync(`${this.file}.new`, text, { mode: 0o600 });
    fs.renameSync(`${this.file}.new`, this.file);
    this.descriptor = fs.openSync(this.file, "a", 0o600);
    this.written = text.length;
    this.rewriteAt = Math.max(this.limits.fileBytes, 2 * this.written);
  }
}

function parse(text: string): JournalLine[] {
  try {
    return text ? [JSON.parse(text) as JournalLine] : [];
  } catch {
    return []; // incomplete: its host died while writing it
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
