/**
 * Which actions were begun here and how they ended, on disk, so that none is done twice.
 *
 * Each extension host writes a file of its own (two tabs are two hosts of one window) and reads
 * those of the others. Files of hosts that are gone are taken over at start. A line is written
 * before an action begins, after it ended, and when the hub has taken its observation.
 */
import * as fs from "node:fs";
import * as path from "node:path";
import type { Answer } from "../protocol";

export const MAX_ACTIONS = 1000;
export const MAX_BYTES = 16 << 20;
/** Milliseconds within which two changes of a directory may bear the same time, amply. */
const CLOCK_TICK = 100;

type Line = { begun: string } | { ended: string; observation: Answer } | { acknowledged: string };

interface Entry {
  size: number;
  mine: boolean;
  observation?: Answer;
  acknowledged: boolean;
}

export type Known =
  | { state: "new" }
  | { state: "running" }
  | { state: "lost" }
  | { state: "ended"; observation: Answer };

export class Journal {
  private readonly entries = new Map<string, Entry>();
  private readonly others = new Map<string, number>();
  private listed = { names: [] as string[], changed: -1 };
  private readonly file: string;
  private descriptor: number;
  private held = 0;
  private written = 0;

  constructor(
    private readonly directory: string,
    host: string,
    private readonly limits = { actions: MAX_ACTIONS, bytes: MAX_BYTES },
  ) {
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.file = path.join(directory, `${process.pid}.${host}.jsonl`);
    this.takeOver();
    this.descriptor = fs.openSync(this.file, "a", 0o600);
    this.rewrite();
  }

  find(id: string): Known {
    let entry = this.entries.get(id);
    if (!entry?.observation && !entry?.mine) {
      this.readOthers();
      entry = this.entries.get(id);
    }
    if (!entry) return { state: "new" };
    if (entry.observation) return { state: "ended", observation: entry.observation };
    return { state: entry.mine ? "running" : "lost" };
  }

  begin(id: string): void {
    this.entries.set(id, { size: 0, mine: true, acknowledged: false });
    this.write({ begun: id });
  }

  end(observation: Answer): void {
    const line: Line = { ended: observation.cause, observation };
    this.apply(line, true);
    this.write(line);
    if (this.written > 2 * this.limits.bytes) this.rewrite();
  }

  acknowledge(id: string): void {
    const entry = this.entries.get(id);
    if (!entry || entry.acknowledged) return;
    entry.acknowledged = true;
    this.write({ acknowledged: id });
  }

  /** Observations of this host that nobody has confirmed, oldest first. */
  unacknowledged(): Answer[] {
    return [...this.entries.values()]
      .filter((entry) => entry.mine && !entry.acknowledged)
      .flatMap((entry) => entry.observation ?? []);
  }

  close(): void {
    fs.closeSync(this.descriptor);
  }

  private write(line: Line): void {
    this.written += fs.writeSync(this.descriptor, `${JSON.stringify(line)}\n`);
  }

  private apply(line: Line, mine: boolean): void {
    if ("begun" in line) {
      if (!this.entries.has(line.begun))
        this.entries.set(line.begun, { size: 0, mine, acknowledged: false });
    } else if ("ended" in line) {
      const size = Buffer.byteLength(JSON.stringify(line.observation));
      const before = this.entries.get(line.ended);
      this.held += size - (before?.size ?? 0);
      this.entries.set(line.ended, {
        size,
        mine: before?.mine ?? mine,
        acknowledged: before?.acknowledged ?? false,
        observation: line.observation,
      });
    } else {
      const entry = this.entries.get(line.acknowledged);
      if (entry) entry.acknowledged = true;
    }
    this.forget();
  }

  /** The oldest go first; one that still runs is never forgotten. */
  private forget(): void {
    if (this.entries.size <= this.limits.actions && this.held <= this.limits.bytes) return;
    for (const [id, entry] of this.entries) {
      if (this.entries.size <= this.limits.actions && this.held <= this.limits.bytes) return;
      if (entry.mine && !entry.observation) continue;
      this.entries.delete(id);
      this.held -= entry.size;
    }
  }

  private takeOver(): void {
    for (const name of this.otherFiles()) {
      const full = path.join(this.directory, name);
      const ended = this.readFrom(name);
      if (isAlive(Number(name.split(".")[0]))) continue;
      // What it had ended and nobody confirmed is ours to send now.
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

  /** Asked for every action: the directory is listed anew only if it may have changed. */
  private otherFiles(): string[] {
    const changed = fs.statSync(this.directory).mtimeMs;
    if (changed === this.listed.changed) return this.listed.names;
    const own = path.basename(this.file);
    const names = fs
      .readdirSync(this.directory)
      .filter((name) => name.endsWith(".jsonl") && name !== own)
      .sort();
    // A change of a moment ago may be followed by another that bears the same time.
    this.listed = { names, changed: Date.now() - changed > CLOCK_TICK ? changed : -1 };
    return names;
  }

  /** Returns the ids of actions that it says ended. */
  private readFrom(name: string): string[] {
    const from = this.others.get(name) ?? 0;
    let data: Buffer;
    try {
      const full = path.join(this.directory, name);
      if (fs.statSync(full).size === from) return [];
      data = fs.readFileSync(full);
    } catch {
      this.others.delete(name); // its host ended and another took it over
      return [];
    }
    // A file that shrank was rewritten. A last line without its newline is still being written.
    const fresh = data.length < from ? data : data.subarray(from);
    const whole = fresh.lastIndexOf("\n") + 1;
    this.others.set(name, data.length - fresh.length + whole);
    const lines = fresh.subarray(0, whole).toString("utf8").split("\n").flatMap(parse);
    for (const line of lines) this.apply(line, false);
    return lines.flatMap((line) => ("ended" in line ? [line.ended] : []));
  }

  private rewrite(): void {
    const lines: Line[] = [];
    for (const [id, entry] of this.entries) {
      lines.push(entry.observation ? { ended: id, observation: entry.observation } : { begun: id });
      if (entry.acknowledged) lines.push({ acknowledged: id });
    }
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    fs.closeSync(this.descriptor);
    fs.writeFileSync(`${this.file}.new`, text, { mode: 0o600 });
    fs.renameSync(`${this.file}.new`, this.file);
    this.descriptor = fs.openSync(this.file, "a", 0o600);
    this.written = text.length;
  }
}

function parse(text: string): Line[] {
  try {
    return text ? [JSON.parse(text) as Line] : [];
  } catch {
    return []; // torn by a host that died while it wrote; the line before it stands
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
