/** Which changes the user undid, for the next observation of each agent. */
import type { Hunk } from "./hunks";

/** Maximum notes for one agent. Older notes are dropped, and the text gives their number. */
const MAX_NOTES = 20;

export class TakenBack {
  private readonly notes = new Map<string, string[]>();

  add(agents: readonly string[], note: string): void {
    for (const agent of agents) {
      const all = [...(this.notes.get(agent) ?? []), note];
      this.notes.set(agent, all);
    }
  }

  /** The note for an agent, once; empty if there is none. */
  takeNote(agent: string): string {
    const all = this.notes.get(agent) ?? [];
    this.notes.delete(agent);
    if (!all.length) return "";
    const more = all.length > MAX_NOTES ? [`${all.length - MAX_NOTES} more changes`] : [];
    const shown = [...more, ...all.slice(-MAX_NOTES)];
    return `The user took back what you had changed: ${shown.join("; ")}. Read a file again before you build on it.`;
  }
}

/** `lines 10 to 14 of src/a.ts`, as the agent left them. */
export function describeHunk(
  displayPath: string,
  { start, end, baseStart, baseEnd }: Hunk,
): string {
  if (start === end) {
    const count = baseEnd - baseStart;
    return `the removal of ${count} ${count === 1 ? "line" : "lines"} after line ${start} of ${displayPath}`;
  }
  return end - start === 1
    ? `line ${start + 1} of ${displayPath}`
    : `lines ${start + 1} to ${end} of ${displayPath}`;
}
