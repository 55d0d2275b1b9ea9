/**
 * A journal on disk of actions that began and ended here, so that no action runs twice.
 *
 * Each extension host writes its own file (two tabs are two hosts of one window) and reads those of
 * the others. At start, it takes over files of hosts that have ended. A host writes a line before
 * an action begins, after the action ended, when the hub has confirmed its observation, and when
 * the sender of the action has received the observation.
 *
 * The journal keeps an id for an hour after its action ended. A sender that repeats an action says
 * how old it is. The journal may have forgotten an id older than an hour, so an unknown action of
 * that age is not started. An observation is kept as long as its id, unless the sender has received
 * it or all observations together exceed `MAX_OBSERVATION_BYTES`.
 */
import * as fs from "node:fs";
import * as path from "node:path";
import { isAlive } from "../common/process_alive";
import type { SentObservation } from "../protocol";

/** Milliseconds that an id is kept after its action ended. See docs/extension-protocol.md. */
export const ID_LIFETIME_MS = 3_600_000;
/** Milliseconds that an id is kept after the sender has received the observation. */
const RECEIVED_ID_LIFETIME_MS = 600_000;
/** Maximum bytes of all observations. The oldest above this are dropped, but not their ids. */
export const MAX_OBSERVATION_BYTES = 64 << 20;
/** File size in bytes above which the file is compacted. */
const MAX_FILE_BYTES = 32 << 20;
/** Milliseconds within which two changes of a directory may have the same modification time. */
const CLOCK_TICK_MS = 100;

/** `at` is in milliseconds since 1970. An `ended` line has no observation if it was dropped. */
type JournalLine =
  | { begun: string; at?: number }
  | { ended: string; at?: number; observation?: SentObservation }
  | { acknowledged: string }
  | { received: string };

interface JournalEntry {
  /** Time at which the action began or, if it ended, the time of its end. */
  at: number;
  /** This host began the action, or took over its end from an ended host. */
  mine: boolean;
  ended: boolean;
  /** The hub has confirmed the observation. */
  acknowledged: boolean;
  /** The sender of the action has received the observation. */
  received: boolean;
  observation?: SentObservation | undefined;
  size: number;
}

/** How far a file of another host was read. */
interface FilePosition {
  inode: number;
  read: number;
}

export type JournalState =
  | { state: "new" }
  | { state: "running" }
  | { state: "lost" }
  | { state: "ended"; observation: SentObservation }
  /** The action ended; its observation is no longer kept. */
  | { state: "done" }
  /** The id is unknown, but the journal may have forgotten an id of this age. */
  | { state: "expired" };

export class Journal {
  private readonly entries = new Map<string, JournalEntry>();
  private readonly others = new Map<string, FilePosition>();
  private listed = { names: [] as string[], changed: -1 };
  private readonly file: string;
  private descriptor: number;
  /** Bytes of all observations in memory. */
  private heldBytes = 0;
  /** Bytes of this host's file. */
  private fileBytes = 0;
  /** File size at which the file is compacted next. */
  private rewriteAt = MAX_FILE_BYTES;

  constructor(
    private readonly directory: string,
    host: string,
    private readonly limits = { bytes: MAX_OBSERVATION_BYTES, fileBytes: MAX_FILE_BYTES },
    private readonly now: () => number = Date.now,
  ) {
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.file = path.join(directory, `${process.pid}.${host}.jsonl`);
    const takenOver = this.takeOver();
    this.descriptor = fs.openSync(this.file, "a", 0o600);
    this.rewrite();
    // Remove the files last, so that a third host finds each line in a file at any moment.
    for (const name of takenOver) fs.rmSync(path.join(directory, name), { force: true });
  }

  /** `ageMs` is the time since the action was first sent, according to its sender. */
  find(id: string, ageMs = 0): JournalState {
    let entry = this.entries.get(id);
    if (!entry?.ended && !entry?.mine) {
      this.readOthers();
      entry = this.entries.get(id);
    }
    if (!entry) return { state: ageMs < ID_LIFETIME_MS ? "new" : "expired" };
    if (entry.observation) return { state: "ended", observation: entry.observation };
    if (entry.ended) return { state: "done" };
    return { state: entry.mine ? "running" : "lost" };
  }

  /**
   * Returns false if another host has begun the action since `find`; then it must not run here.
   * Each host writes its own line before it reads the other's, so at least one of two hosts sees
   * both lines.
   */
  begin(id: string): boolean {
    const entry = this.entry(undefined, true);
    this.entries.set(id, entry);
    this.write({ begun: id, at: entry.at });
    this.forget();
    entry.mine = !this.readOthers().has(id);
    return entry.mine;
  }

  end(observation: SentObservation): void {
    this.write(this.applied({ ended: observation.cause, at: this.now(), observation }));
    if (this.fileBytes > this.rewriteAt) this.rewrite();
  }

  acknowledge(id: string): void {
    const entry = this.entries.get(id);
    if (!entry || entry.acknowledged) return;
    entry.acknowledged = true;
    this.write({ acknowledged: id });
  }

  /** The sender of the action has received its observation. */
  receive(id: string): void {
    const entry = this.entries.get(id);
    if (entry?.ended && !entry.received) this.write(this.applied({ received: id }));
  }

  /** Observations of this host that the hub has not confirmed, oldest first. */
  unacknowledged(): SentObservation[] {
    return [...this.entries.values()]
      .filter((entry) => entry.mine && !entry.acknowledged)
      .flatMap((entry) => entry.observation ?? []);
  }

  close(): void {
    fs.closeSync(this.descriptor);
  }

  private write(line: JournalLine): void {
    this.fileBytes += fs.writeSync(this.descriptor, `${JSON.stringify(line)}\n`);
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
    this.heldBytes += size - entry.size;
    entry.size = size;
    entry.observation = observation;
  }

  /** Drops the oldest observations; their ids stay known. */
  private shrink(): void {
    if (this.heldBytes <= this.limits.bytes) return;
    for (const entry of this.entries.values()) {
      if (this.heldBytes <= this.limits.bytes) return;
      this.hold(entry, undefined);
    }
  }

  /** Removes expired ids. A running action never expires. */
  private forget(): void {
    const now = this.now();
    for (const [id, entry] of this.entries) {
      if (entry.mine && !entry.ended) continue;
      if (now - entry.at < (entry.received ? RECEIVED_ID_LIFETIME_MS : ID_LIFETIME_MS)) return;
      this.hold(entry, undefined);
      this.entries.delete(id);
    }
  }

  /** Reads the files of other hosts. Returns the files of hosts that have ended. */
  private takeOver(): string[] {
    const takenOver: string[] = [];
    for (const name of this.otherFiles()) {
      const lines = this.readFrom(name);
      if (isAlive(hostOf(name))) continue;
      // This host now sends the unconfirmed observations of the ended host.
      for (const line of lines) if ("ended" in line) this.adopt(line.ended);
      this.others.delete(name);
      takenOver.push(name);
    }
    return takenOver;
  }

  private adopt(id: string): void {
    const entry = this.entries.get(id);
    if (entry) entry.mine = true;
  }

  /** Returns the ids of actions that other hosts have begun since the last read. */
  private readOthers(): Set<string> {
    const lines = this.otherFiles().flatMap((name) => this.readFrom(name));
    return new Set(lines.flatMap((line) => ("begun" in line ? [line.begun] : [])));
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
    this.listed = { names, changed: Date.now() - changed > CLOCK_TICK_MS ? changed : -1 };
    return names;
  }

  /** Applies the lines that were added to a file since the last read, and returns them. */
  private readFrom(name: string): JournalLine[] {
    const known = this.others.get(name);
    const content = readFile(path.join(this.directory, name), known);
    if (content === "unchanged") return [];
    if (content === "gone") {
      this.others.delete(name); // its host ended and another host took over the file
      return [];
    }
    // A new inode: the file was rewritten. A last line without newline is still being written.
    const from = content.inode === known?.inode ? known.read : 0;
    const added = content.data.subarray(from);
    const completeLength = added.lastIndexOf("\n") + 1;
    this.others.set(name, { inode: content.inode, read: from + completeLength });
    const lines = added.subarray(0, completeLength).toString("utf8").split("\n").flatMap(parse);
    for (const line of lines) this.apply(line, false);
    return lines;
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
    this.fileBytes = text.length;
    this.rewriteAt = Math.max(this.limits.fileBytes, 2 * this.fileBytes);
  }
}

/**
 * Removes the journals of windows whose hosts have all ended and whose last action is older than
 * `ID_LIFETIME_MS`, so that no sender repeats it. Never removes the journal named `own`.
 */
export function removeOldJournals(directory: string, own: string, now = Date.now()): void {
  if (!fs.existsSync(directory)) return;
  for (const window of fs.readdirSync(directory)) {
    const full = path.join(directory, window);
    if (window !== own && isOver(full, now)) fs.rmSync(full, { recursive: true, force: true });
  }
}

function isOver(journal: string, now: number): boolean {
  const isOld = (file: string): boolean =>
    now - (fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > ID_LIFETIME_MS;
  // Check the directory too: it may be empty because its first host is just starting.
  if (!isOld(journal)) return false;
  const names = fs.readdirSync(journal);
  return names.every((name) => isOld(path.join(journal, name)) && !isAlive(hostOf(name)));
}

/** Uses one descriptor, so that inode and content match even if the file is being replaced. */
function readFile(
  file: string,
  known: FilePosition | undefined,
): { inode: number; data: Buffer } | "unchanged" | "gone" {
  let descriptor: number;
  try {
    descriptor = fs.openSync(file, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "gone";
    throw error;
  }
  try {
    const { ino, size } = fs.fstatSync(descriptor);
    if (ino === known?.inode && size === known.read) return "unchanged";
    return { inode: ino, data: fs.readFileSync(descriptor) };
  } finally {
    fs.closeSync(descriptor);
  }
}

/** The id of the process that writes the file with this name. */
function hostOf(name: string): number {
  return Number(name.split(".")[0]);
}

function parse(text: string): JournalLine[] {
  try {
    return text ? [JSON.parse(text) as JournalLine] : [];
  } catch {
    return []; // incomplete: the host died while it wrote the line
  }
}
