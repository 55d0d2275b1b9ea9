/**
 * The text files of the workspace as they were last seen, so that the text before a command of an
 * agent is known. VS Code's file watcher says what changed; nothing is read per command.
 *
 * Not seen: files that `.gitignore` excludes, binary files, files above `MAX_FILE_BYTES`, files
 * beyond `MAX_FILES` and `MAX_TOTAL_BYTES`, and whatever VS Code does not watch
 * (`files.watcherExclude`).
 */
import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { promisify } from "node:util";
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";

export const MAX_FILE_BYTES = 1 << 20;
const MAX_TOTAL_BYTES = 64 << 20;
const MAX_FILES = 5000;
/** Maximum milliseconds that an agent's first command waits until the files were read. */
const FIRST_READ_MS = 2000;

export interface SeenFile {
  bytes: Buffer;
  mode: number;
}

/** A file on disk differs from the last state seen. Undefined: the file does not exist. */
export interface DiskChange {
  path: string;
  before: SeenFile | undefined;
  after: SeenFile | undefined;
  /** When it was changed, in milliseconds. */
  time: number;
}

export class WorkspaceTexts implements Disposable {
  private readonly seen = new Map<string, SeenFile>();
  private total = 0;
  private reading: Promise<void> | undefined;
  private isRead = false;
  private watcher: vscode.FileSystemWatcher | undefined;
  private waiting = new Set<string>();
  private work: Promise<void> = Promise.resolve();

  constructor(
    private readonly roots: () => string[],
    private readonly ripgrep: string | undefined,
    private readonly onChange: (change: DiskChange) => void,
    private readonly log: Log,
  ) {}

  /** Reads the files once and begins to watch them. Waits for this at most `timeoutMs`. */
  async start(timeoutMs = FIRST_READ_MS): Promise<void> {
    if (this.isRead) return;
    this.reading ??= this.begin().then(() => {
      this.isRead = true;
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([this.reading, late]);
    clearTimeout(timer);
  }

  get(file: string): SeenFile | undefined {
    return this.seen.get(file);
  }

  /** Records the file as it is now, without reporting a change. */
  accept(file: string): void {
    this.store(file, read(file));
  }

  /** Reports the file if it has changed. */
  check(file: string): void {
    if (!this.watcher) return;
    const isFirst = this.waiting.size === 0;
    this.waiting.add(file);
    if (isFirst) this.work = this.work.then(() => this.report());
  }

  dispose(): void {
    this.watcher?.dispose();
    this.seen.clear();
  }

  private async begin(): Promise<void> {
    this.watcher = vscode.workspace.createFileSystemWatcher("**/*");
    const check = (uri: vscode.Uri): void => {
      if (uri.scheme === "file") this.check(uri.fsPath);
    };
    this.watcher.onDidChange(check);
    this.watcher.onDidCreate(check);
    this.watcher.onDidDelete(check);
    for (const file of await this.list()) {
      if (this.seen.has(file)) continue;
      if (this.seen.size >= MAX_FILES || this.total >= MAX_TOTAL_BYTES) {
        this.log.warn(`the review of commands sees only ${this.seen.size} files of the workspace`);
        break;
      }
      this.store(file, await readLater(file));
    }
  }

  private async report(): Promise<void> {
    const files = [...this.waiting];
    this.waiting = new Set();
    const isNew = files.some((file) => !this.seen.has(file) && fs.existsSync(file));
    const listed = isNew ? new Set(await this.list()) : new Set<string>();
    for (const each of files) {
      // When a directory is removed, VS Code reports only the directory, not its files.
      const below = fs.existsSync(each) ? [] : this.below(each);
      for (const file of [each, ...below]) this.compare(file, listed);
    }
  }

  private compare(file: string, listed: ReadonlySet<string>): void {
    const before = this.seen.get(file);
    const after = read(file);
    if (before ? after?.bytes.equals(before.bytes) : !after || !listed.has(file)) return;
    if (!after && fs.existsSync(file)) return this.store(file, undefined); // no longer readable here
    this.store(file, after);
    try {
      this.onChange({ path: file, before, after, time: timeOf(file) });
    } catch (error) {
      this.log.error(`a change of ${file} could not be recorded`, error);
    }
  }

  private below(directory: string): string[] {
    const prefix = directory + path.sep;
    return [...this.seen.keys()].filter((file) => file.startsWith(prefix));
  }

  private store(file: string, found: SeenFile | undefined): void {
    this.total += (found?.bytes.length ?? 0) - (this.seen.get(file)?.bytes.length ?? 0);
    if (found) this.seen.set(file, found);
    else this.seen.delete(file);
  }

  /** The files of the workspace that no `.gitignore` excludes. */
  private async list(): Promise<string[]> {
    try {
      const found = await Promise.all(this.roots().map((root) => this.filesOf(root)));
      return found.flat();
    } catch (error) {
      this.log.warn(`the files of the workspace cannot be listed: ${messageOf(error)}`);
      return [];
    }
  }

  private async filesOf(root: string): Promise<string[]> {
    if (!this.ripgrep) {
      const found = await vscode.workspace.findFiles(
        new vscode.RelativePattern(root, "**/*"),
        undefined,
        MAX_FILES,
      );
      return found.map(({ fsPath }) => fsPath);
    }
    const args = ["--files", "--hidden", "--no-require-git", "--no-messages", "--null"];
    const options = { maxBuffer: 64 << 20, encoding: "utf8" } as const;
    const done = promisify(execFile)(this.ripgrep, [...args, "--glob=!.git", root], options);
    const { stdout } = await done.catch((error: unknown) => {
      // Status 1 means that there are no files.
      const failed = error as { code?: unknown; stdout?: string };
      if (failed.code === 1) return { stdout: failed.stdout ?? "" };
      throw error;
    });
    return stdout.split("\0").filter(Boolean);
  }
}

/** A text file of at most `MAX_FILE_BYTES`; undefined for other files, or without a file. */
function read(file: string): SeenFile | undefined {
  try {
    const { mode, size } = regular(fs.lstatSync(file));
    if (size > MAX_FILE_BYTES) return undefined;
    return text({ bytes: fs.readFileSync(file), mode });
  } catch {
    return undefined;
  }
}

async function readLater(file: string): Promise<SeenFile | undefined> {
  try {
    const { mode, size } = regular(await fs.promises.lstat(file));
    if (size > MAX_FILE_BYTES) return undefined;
    return text({ bytes: await fs.promises.readFile(file), mode });
  } catch {
    return undefined;
  }
}

function regular(stats: fs.Stats): fs.Stats {
  if (!stats.isFile()) throw new Error("not a regular file");
  return stats;
}

function text(found: SeenFile): SeenFile | undefined {
  return found.bytes.subarray(0, 8192).includes(0) ? undefined : found;
}

/** When the file was changed; for a removed file, when the directory above it was changed. */
export function timeOf(file: string): number {
  for (let at = file; at !== path.dirname(at); at = path.dirname(at)) {
    const found = fs.lstatSync(at, { throwIfNoEntry: false });
    if (found) return found.ctimeMs;
  }
  return 0;
}
