/** One file with changes of agents that nobody has reviewed yet. */
import { createHash } from "node:crypto";
import { areSame, hunksBetween, keepHunk, undoHunk, type Hunk, type Lines } from "./hunks";
import { baseAfterEdit } from "./person_edits";

/** How the editor got a new text. */
export type TextOrigin =
  /** By undo or redo. */
  | "history"
  /** By typing, or in any other way that is not an agent's. */
  | "person";

/** A file that an agent removed, as it was just before. */
export interface RemovedFile {
  bytes: Buffer;
  mode: number;
}

/** Maximum number of agents' texts, and of earlier bases, that a file remembers. */
const MAX_REMEMBERED = 100;
/** Maximum number of lines in all remembered bases together. */
const MAX_LINES = 500_000;

/**
 * The base is the text without the agents' changes that are pending; `text` is what the editor
 * shows, or the file has if no editor shows it. The hunks are the differences between the two.
 */
export class ReviewedFile {
  base: Lines;
  text: Lines;
  /** Names of the agents that changed the file, the last one at the end. */
  readonly agents: string[] = [];
  /** The file did not exist before the first change. */
  isCreated: boolean;
  /** The line end of the base; undefined if the line end is unknown. */
  lineEnd: "\n" | "\r\n" | undefined;
  removed: RemovedFile | undefined;
  /** Whether `text` was not saved when it was last seen. */
  isDirty = false;
  /** Keys of texts that agents wrote to disk. */
  private readonly written = new Set<string>();
  /** Steps between two texts that bring changes of agents back, by the keys of both. */
  private readonly returning = new Set<string>();
  /** The base that belonged to an earlier text, for undo and redo. */
  private readonly earlier = new Map<string, Lines>();

  constructor(
    public path: string,
    before: Lines,
    isCreated: boolean,
  ) {
    this.base = before;
    this.text = before;
    this.isCreated = isCreated;
  }

  get hunks(): Hunk[] {
    return this.removed ? [] : hunksBetween(this.base, this.text);
  }

  get isPending(): boolean {
    return this.removed !== undefined || this.isCreated || !areSame(this.base, this.text);
  }

  /** An agent wrote this text to disk. The editor may show it later; see `show`. */
  wrote(agent: string, text: Lines): void {
    this.addAgent(agent);
    addBounded(this.written, keyOf(text));
  }

  /** An agent removed the file. */
  wasRemoved(agent: string, removed: RemovedFile): void {
    this.addAgent(agent);
    this.removed = removed;
  }

  /** Starts again with this text, if nothing is pending. */
  restart(text: Lines): void {
    if (this.isPending || areSame(this.text, text)) return;
    this.base = this.text = text;
  }

  /** Whether the text is exactly what an agent wrote. */
  isAgents(text: Lines): boolean {
    return this.written.has(keyOf(text));
  }

  /** The editor, or the file if no editor shows it, has a new text. */
  show(next: Lines, origin: TextOrigin): void {
    if (areSame(next, this.text)) return;
    const step = `${keyOf(this.text)} ${keyOf(next)}`;
    const earlier = origin === "history" ? this.earlier.get(keyOf(next)) : undefined;
    const isWritten = origin === "person" && this.isAgents(next);
    this.remember();
    if (isWritten) addBounded(this.returning, step);
    if (earlier) this.base = earlier;
    else if (!isWritten && !this.returning.has(step))
      this.base = baseAfterEdit(this.base, this.text, next);
    this.text = next;
  }

  /** The base takes the hunk. The text does not change. */
  keep(hunk: Hunk): void {
    this.base = keepHunk(this.base, this.text, hunk);
    this.earlier.clear(); // undo must not bring back what was kept
    if (!this.hunks.length) this.isCreated = false;
  }

  keepAll(): void {
    this.base = this.text;
    this.earlier.clear();
    this.isCreated = false;
    this.removed = undefined;
  }

  /** Takes the text without the hunk, which the caller puts into the editor. */
  undo(hunk: Hunk): void {
    this.replaceText(undoHunk(this.base, this.text, hunk));
  }

  undoAll(): void {
    this.replaceText(this.base);
  }

  /** The caller could not change the editor. */
  undoFailed(before: Lines): void {
    this.text = before;
  }

  private addAgent(agent: string): void {
    if (!this.isPending) this.agents.length = 0; // the changes of these agents were reviewed
    const known = this.agents.indexOf(agent);
    if (known >= 0) this.agents.splice(known, 1);
    this.agents.push(agent);
  }

  private replaceText(next: Lines): void {
    this.remember();
    addBounded(this.returning, `${keyOf(next)} ${keyOf(this.text)}`);
    this.text = next;
  }

  private remember(): void {
    const key = keyOf(this.text);
    this.earlier.delete(key); // so that `set` moves it to the end
    this.earlier.set(key, this.base);
    let lines = [...this.earlier.values()].reduce((sum, base) => sum + base.length, 0);
    for (const [oldest, base] of this.earlier) {
      if (this.earlier.size <= MAX_REMEMBERED && lines <= MAX_LINES) break;
      this.earlier.delete(oldest);
      lines -= base.length;
    }
  }
}

function keyOf(text: Lines): string {
  return createHash("sha1").update(text.join("\n")).digest("base64");
}

function addBounded(set: Set<string>, key: string): void {
  set.delete(key);
  set.add(key);
  const oldest = set.values().next().value;
  if (set.size > MAX_REMEMBERED && oldest !== undefined) set.delete(oldest);
}
