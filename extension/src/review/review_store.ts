/**
 * Keeps pending changes on disk, one JSON file each, so that they survive a reload of the window.
 * The number of files and their size are limited; the oldest changes are dropped first.
 */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { ReviewedFile } from "./reviewed_file";

export interface StoreLimits {
  files: number;
  bytes: number;
}

export const STORE_LIMITS: StoreLimits = { files: 500, bytes: 64 << 20 };

/** Days after which the review of a window that was not opened again is removed. */
const MAX_AGE_DAYS = 90;

/** Removes old reviews of other windows, which are in directories beside `own`. */
export function removeOldReviews(directory: string, own: string, now = Date.now()): void {
  if (!fs.existsSync(directory)) return;
  for (const window of fs.readdirSync(directory)) {
    const full = path.join(directory, window);
    const age = now - fs.statSync(full).mtimeMs;
    if (window !== own && age > MAX_AGE_DAYS * 86_400_000) fs.rmSync(full, { recursive: true });
  }
}

interface StoredFile {
  path: string;
  base: string;
  text: string;
  agents: string[];
  isCreated: boolean;
  isDirty: boolean;
  lineEnd?: "\n" | "\r\n";
  removed?: { bytes: string; mode: number };
}

export class ReviewStore {
  /** Sizes by path, the oldest first. */
  private readonly sizes = new Map<string, number>();

  constructor(
    private readonly directory: string,
    private readonly limits: StoreLimits = STORE_LIMITS,
  ) {}

  /** The stored files, and the names of those that could not be read. */
  load(): { files: ReviewedFile[]; broken: string[] } {
    fs.mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    const files: ReviewedFile[] = [];
    const broken: string[] = [];
    const names = fs.readdirSync(this.directory).filter((name) => name.endsWith(".json"));
    const aged = names.map((name) => ({ name, ...this.stat(name) }));
    for (const { name, size } of aged.sort((a, b) => a.mtimeMs - b.mtimeMs)) {
      try {
        const stored = JSON.parse(
          fs.readFileSync(path.join(this.directory, name), "utf8"),
        ) as StoredFile;
        files.push(restored(stored));
        this.sizes.set(stored.path, size);
      } catch {
        broken.push(name);
      }
    }
    return { files, broken };
  }

  /** Writes a file and returns the paths that had to be dropped for it. */
  save(file: ReviewedFile): string[] {
    const { removed } = file;
    const stored: StoredFile = {
      path: file.path,
      base: file.base.join("\n"),
      text: file.text.join("\n"),
      agents: file.agents,
      isCreated: file.isCreated,
      isDirty: file.isDirty,
      ...(file.lineEnd ? { lineEnd: file.lineEnd } : {}),
      ...(removed ? { removed: { ...removed, bytes: removed.bytes.toString("base64") } } : {}),
    };
    const json = JSON.stringify(stored);
    const target = this.fileOf(file.path);
    fs.writeFileSync(`${target}.new`, json, { mode: 0o600 });
    fs.renameSync(`${target}.new`, target);
    this.sizes.delete(file.path); // so that `set` moves it to the end
    this.sizes.set(file.path, Buffer.byteLength(json));
    return this.dropOldest();
  }

  remove(file: string): void {
    this.sizes.delete(file);
    fs.rmSync(this.fileOf(file), { force: true });
  }

  private dropOldest(): string[] {
    const dropped: string[] = [];
    let bytes = [...this.sizes.values()].reduce((sum, size) => sum + size, 0);
    for (const [oldest, size] of this.sizes) {
      if (this.sizes.size <= this.limits.files && bytes <= this.limits.bytes) break;
      this.remove(oldest);
      dropped.push(oldest);
      bytes -= size;
    }
    return dropped;
  }

  private fileOf(file: string): string {
    const name = createHash("sha256").update(file).digest("hex");
    return path.join(this.directory, `${name}.json`);
  }

  private stat(name: string): { mtimeMs: number; size: number } {
    const { mtimeMs, size } = fs.statSync(path.join(this.directory, name));
    return { mtimeMs, size };
  }
}

function restored(stored: StoredFile): ReviewedFile {
  const file = new ReviewedFile(stored.path, stored.base.split("\n"), stored.isCreated);
  file.text = stored.text.split("\n");
  file.agents.push(...stored.agents);
  file.isDirty = stored.isDirty;
  file.lineEnd = stored.lineEnd;
  if (stored.removed)
    file.removed = {
      bytes: Buffer.from(stored.removed.bytes, "base64"),
      mode: stored.removed.mode,
    };
  return file;
}
