/**
 * The review on the hub's page: which changes of agents are pending, their lines, and the answers
 * of the person there. Everything that is sent is bounded. An answer names the version of each file
 * that the person saw; a file that has changed since is left alone.
 */
import { createHash } from "node:crypto";
import type { Disposable } from "../common/disposables";
import { Emitter } from "../common/emitter";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { shortened, visible } from "../consent/visible_text";
import type { SharedReview } from "../hub/connection";
import type {
  ReviewAnswer,
  ReviewFile,
  ReviewHunk,
  ReviewHunks,
  ReviewList,
  ReviewTarget,
} from "../hub/messages";
import type { Hunk, Lines } from "../review/hunks";
import type { ReviewedFile } from "../review/reviewed_file";

/** Limits of a list. The hub accepts the same number of files, and more bytes (`MAX_LIST_BYTES`). */
const MAX_FILES = 200;
const MAX_LIST_BYTES = 96 << 10;
const MAX_NAME_CHARS = 300;
const MAX_AGENTS = 8;
/** Limits of the hunks of one file. */
const MAX_HUNKS = 200;
const MAX_LINES = 2000;
const MAX_LINE_CHARS = 500;
const MAX_HUNKS_CHARS = 128 << 10;
/** Milliseconds in which changes are combined into one message. */
const PUBLISH_MS = 200;

/** The pending files. */
export interface PendingFiles {
  readonly pending: readonly ReviewedFile[];
}

/** Keeps and undoes changes in the window. Fails with a `Failure`. */
export interface ChangeReviewer {
  /** The file, if the editor shows the text that its changes were computed with. */
  current(path: string): ReviewedFile;
  keep(file: ReviewedFile, hunk: Hunk): void;
  keepFile(file: ReviewedFile): void;
  undo(file: ReviewedFile, hunk: Hunk): Promise<void>;
  undoFile(file: ReviewedFile, isCurrent: () => boolean): Promise<void>;
}

/** A summary, and what it was computed from. */
interface Summary {
  listed: ReviewFile;
  from: Pick<ReviewedFile, "base" | "text" | "removed" | "isCreated">;
}

export class HubReview implements SharedReview, Disposable {
  /** Fires when the list may have changed, at most every 200 milliseconds. */
  readonly onChanged: Emitter<undefined>;
  /** Diffs are costly, and most files do not change between two lists. */
  private readonly summaries = new WeakMap<ReviewedFile, Summary>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly files: PendingFiles,
    private readonly reviewer: ChangeReviewer,
    private readonly nameOf: (path: string) => string,
    private readonly log: Log,
  ) {
    this.onChanged = new Emitter((error) => log.error("a listener failed", error));
  }

  changed(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.onChanged.fire(undefined);
    }, PUBLISH_MS);
  }

  dispose(): void {
    clearTimeout(this.timer);
  }

  list(): ReviewList {
    const pending = [...this.files.pending].sort((a, b) => (a.path < b.path ? -1 : 1));
    const files: ReviewFile[] = [];
    let bytes = 0;
    for (const file of pending.slice(0, MAX_FILES)) {
      const summary = this.summaryOf(file);
      bytes += Buffer.byteLength(JSON.stringify(summary));
      if (bytes > MAX_LIST_BYTES) break;
      files.push(summary);
    }
    return { files, more: pending.length - files.length };
  }

  show(target: ReviewTarget): ReviewHunks {
    const file = this.find(target);
    if (file.removed) return boundedHunks([{ line: 1, removed: file.text, added: [] }]);
    return boundedHunks(
      file.hunks.map(({ baseStart, baseEnd, start, end }) => ({
        line: start + 1,
        removed: file.base.slice(baseStart, baseEnd),
        added: file.text.slice(start, end),
      })),
    );
  }

  /** Changes nothing if a file has changed since it was shown. */
  async answer({ answer, files, by }: ReviewAnswer): Promise<{ done: number }> {
    const found = files.map((target) => this.find(target));
    let done = 0;
    for (const [index, target] of files.entries()) {
      try {
        await this.apply(answer, target);
      } catch (error) {
        this.changed();
        if (done === 0 || !(error instanceof Failure)) throw error;
        const before = `Done before that: ${done} of ${found.length} files`;
        throw new Failure(error.code, `${messageOf(error)}. ${before}`);
      }
      done += 1;
      const name = this.nameOf(found[index]?.path ?? "");
      this.log.info(`${by} chose "${answer}" for changes of ${name} on the hub's page`);
    }
    return { done };
  }

  private async apply(answer: "keep" | "undo", target: ReviewTarget): Promise<void> {
    const file = this.find(target);
    if (target.hunk === undefined) {
      if (answer === "keep") return this.reviewer.keepFile(file);
      return this.reviewer.undoFile(file, () => versionOf(file) === target.version);
    }
    const hunk = file.hunks[target.hunk];
    if (!hunk) throw stale(this.nameOf(file.path));
    if (answer === "keep") return this.reviewer.keep(file, hunk);
    return this.reviewer.undo(file, hunk);
  }

  /**
   * Fails if the file no longer has the pending changes that were shown. Then sends the list again:
   * who waits for a newer list must not depend on a later change of the file.
   */
  private find(target: ReviewTarget): ReviewedFile {
    try {
      return this.findShown(target);
    } catch (error) {
      this.changed();
      throw error;
    }
  }

  private findShown({ file: id, version }: ReviewTarget): ReviewedFile {
    const file = this.files.pending.find(({ path }) => idOf(path) === id);
    if (!file) throw stale("A file");
    if (versionOf(file) !== version) throw stale(this.nameOf(file.path));
    return this.reviewer.current(file.path);
  }

  private summaryOf(file: ReviewedFile): ReviewFile {
    const { base, text, removed, isCreated } = file;
    const known = this.summaries.get(file);
    const isSame =
      known?.from.base === base &&
      known.from.text === text &&
      known.from.removed === removed &&
      known.from.isCreated === isCreated;
    const listed = { ...(isSame ? known.listed : lineCounts(file)), ...stateOf(file, this.nameOf) };
    this.summaries.set(file, { listed, from: { base, text, removed, isCreated } });
    return listed;
  }
}

/** The costly part of a summary. */
function lineCounts(
  file: ReviewedFile,
): Pick<ReviewFile, "version" | "hunks" | "added" | "removed"> {
  const { hunks, text } = file;
  const sum = (lengthOf: (hunk: Hunk) => number): number =>
    hunks.reduce((total, hunk) => total + lengthOf(hunk), 0);
  return {
    version: versionOf(file),
    hunks: hunks.length,
    added: sum(({ start, end }) => end - start),
    removed: file.removed
      ? withoutLastEmpty(text).length
      : sum(({ baseStart, baseEnd }) => baseEnd - baseStart),
  };
}

function stateOf(
  file: ReviewedFile,
  nameOf: (path: string) => string,
): Pick<ReviewFile, "id" | "name" | "agents" | "change"> {
  return {
    id: idOf(file.path),
    name: shortened(nameOf(file.path), MAX_NAME_CHARS),
    agents: file.agents.slice(-MAX_AGENTS).map((agent) => shortened(agent)),
    change: file.removed ? "removed" : file.isCreated ? "created" : "changed",
  };
}

/** A short id for a path: a path may be too long to be sent, or contain any character. */
function idOf(path: string): string {
  return createHash("sha256").update(path).digest("hex").slice(0, 32);
}

function versionOf({ base, text, isCreated, removed }: ReviewedFile): string {
  const hash = createHash("sha256");
  const parts = [base.join("\n"), text.join("\n"), removed?.bytes ?? ""];
  hash.update(JSON.stringify([isCreated, removed !== undefined, ...parts.map((p) => p.length)]));
  for (const part of parts) hash.update(part);
  return hash.digest("hex").slice(0, 32);
}

function withoutLastEmpty(text: Lines): Lines {
  return text.at(-1) === "" ? text.slice(0, -1) : text;
}

interface HunkLines {
  line: number;
  removed: Lines;
  added: Lines;
}

/** The first hunks and lines, as many as fit, with hidden characters spelled out. */
function boundedHunks(all: readonly HunkLines[]): ReviewHunks {
  const hunks: ReviewHunk[] = [];
  let [lines, length] = [MAX_LINES, MAX_HUNKS_CHARS];
  const takeLines = (from: Lines): string[] => {
    const result: string[] = [];
    for (const line of from) {
      if (lines <= 0 || length <= 0) break;
      const shown = shownLine(line);
      lines -= 1;
      length -= shown.length + 1;
      result.push(shown);
    }
    return result;
  };
  for (const { line, removed, added } of all.slice(0, MAX_HUNKS)) {
    if (lines <= 0 || length <= 0) break;
    const shown = { removed: takeLines(removed), added: takeLines(added) };
    const isWhole =
      shown.removed.length === removed.length &&
      shown.added.length === added.length &&
      [...removed, ...added].every((each) => each.length <= MAX_LINE_CHARS);
    hunks.push({ line, ...shown, is_whole: isWhole });
  }
  return { hunks, more: all.length - hunks.length };
}

function shownLine(line: string): string {
  return line.length > MAX_LINE_CHARS
    ? `${visible(line.slice(0, MAX_LINE_CHARS))}…`
    : visible(line);
}

function stale(name: string): Failure {
  return new Failure(
    "edit.conflict",
    `${name} has changed since this was shown. Nothing was done; look at the change again`,
  );
}
