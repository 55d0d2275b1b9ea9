// Builds the rows of a timeline, one per action, from the entries that the hub sends.
import type { Action, TimelineEntry, Observation } from "../hub/types";

export type RowState = "running" | "done" | "failed";

export interface TimelineRow {
  readonly id: string;
  action: Action | null;
  observation: Observation | null;
  who: string;
  /** Seconds since 1970. */
  began: number;
  seconds: number | null;
  state: RowState;
  /** Output so far. Cleared when the observation arrives, which contains all of it. */
  output: string;
  /** Why there is no observation. */
  lostReason: string;
  /** Number of the checkpoint that records the changes of the action. */
  checkpoint: number | null;
  /** Incremented on each change, so that a view knows what to redraw. */
  version: number;
}

const MAX_ROWS = 50_000;
const MAX_OUTPUT_CHARS = 64 * 1024;

/**
 * Entries may arrive twice (after a reconnect) and in several batches. Rows stay in the order in
 * which their actions began.
 */
export class TimelineLog {
  readonly rows: TimelineRow[] = [];
  /** Entries of another epoch replace all rows. */
  epoch = "";
  last = 0;
  /** Number of rows dropped. Only the oldest rows are dropped. */
  dropped = 0;
  private readonly byId = new Map<string, TimelineRow>();
  private readonly decoders = new Map<string, TextDecoder>();

  apply(epoch: string, entries: readonly TimelineEntry[]): void {
    if (epoch !== this.epoch) this.restart(epoch);
    for (const entry of entries) {
      if (entry.n !== 0 && entry.n <= this.last) continue;
      if (entry.n !== 0) this.last = entry.n;
      this.take(entry);
    }
    const excess = this.rows.length - MAX_ROWS;
    if (excess > 0) this.drop(excess);
  }

  private restart(epoch: string): void {
    this.epoch = epoch;
    this.last = 0;
    this.dropped += this.rows.length;
    this.rows.length = 0;
    this.byId.clear();
    this.decoders.clear();
  }

  private take(entry: TimelineEntry): void {
    switch (entry.kind) {
      case "action": {
        const row = this.row(entry.event.id, entry.time);
        row.action = entry.event;
        row.who = entry.who ?? "";
        return;
      }
      case "observation": {
        const row = this.row(entry.event.cause ?? entry.event.id, entry.time - entry.seconds);
        row.observation = entry.event;
        row.seconds = entry.seconds;
        row.checkpoint = entry.checkpoint ?? null;
        row.state = hasFailed(entry.event) ? "failed" : "done";
        row.output = "";
        this.decoders.delete(row.id);
        return;
      }
      case "failed": {
        const row = this.row(entry.cause, entry.time - entry.seconds);
        if (row.observation) return;
        row.lostReason = entry.message;
        row.seconds = entry.seconds;
        row.state = "failed";
        return;
      }
      case "output": {
        const row = this.byId.get(entry.cause);
        if (!row || row.observation) return;
        row.version += 1;
        row.output = (row.output + this.decode(entry.cause, entry.data)).slice(-MAX_OUTPUT_CHARS);
      }
    }
  }

  private row(id: string, began: number): TimelineRow {
    const known = this.byId.get(id);
    if (known) {
      known.version += 1;
      return known;
    }
    const row: TimelineRow = {
      id,
      action: null,
      observation: null,
      who: "",
      began,
      seconds: null,
      state: "running",
      output: "",
      lostReason: "",
      checkpoint: null,
      version: 0,
    };
    this.byId.set(id, row);
    this.rows.push(row);
    return row;
  }

  private decode(id: string, data: string): string {
    let decoder = this.decoders.get(id);
    if (!decoder) this.decoders.set(id, (decoder = new TextDecoder()));
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    return decoder.decode(bytes, { stream: true });
  }

  private drop(count: number): void {
    for (const row of this.rows.splice(0, count)) {
      this.byId.delete(row.id);
      this.decoders.delete(row.id);
    }
    this.dropped += count;
  }
}

function hasFailed(seen: Observation): boolean {
  if (seen.observation === "error" || seen.observation === "user_rejected") return true;
  if (seen.observation === "browse") return seen.extras.error === true;
  return "success" in seen && seen.success === false;
}
