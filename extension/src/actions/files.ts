/** Reading, writing and removing files, and listing directories. */
import type { Dirent } from "node:fs";
import { lstat, mkdir, readdir, readFile, rm, rmdir, stat, unlink } from "node:fs/promises";
import * as path from "node:path";
import { Failure } from "../common/failure";
import { observe, type ArgsOf, type DirEntry, type ObservationBody } from "../protocol";
import type { Documents } from "./documents";
import { countLines, endWithNewline, skipLines, sliceLines } from "./lines";
import { asFailure, withPathErrors, type ResolvedPath, type PathResolver } from "./paths";
import { decode } from "./text_encoding";

/** Maximum bytes of one `read`, and of a file in which lines are replaced. */
export const MAX_READ_BYTES = 32 << 20;

const MEDIA_TYPES: Record<string, string> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".bmp": "image/bmp",
  ".gif": "image/gif",
  ".pdf": "application/pdf",
  ".mp4": "video/mp4",
  ".webm": "video/webm",
  ".ogg": "video/ogg",
};

/**
 * File actions. Reading text returns the editor's unsaved text if there is any, otherwise the text
 * on disk. Writes go through `Documents`, which protects unsaved changes.
 */
export class Files {
  constructor(
    private readonly resolver: PathResolver,
    private readonly documents: Documents,
  ) {}

  async read(args: ArgsOf<"read">, cwd: string): Promise<ObservationBody<"read">> {
    const { start = 0, end = -1 } = args;
    ensureRange(start, end);
    const target = await this.resolver.find(args.path, cwd, { toRead: true });
    const media = MEDIA_TYPES[path.extname(args.path).toLowerCase()];
    const content = media
      ? `data:${media};base64,${(await readBytes(target, "Copy it out instead")).toString("base64")}`
      : sliceLines(await this.settledText(target), start, end);
    return observe("read", content, { path: target.displayPath, impl_source: "default" });
  }

  /** The same as `text`, but waits while an action or a review changes or saves the file. */
  settledText(target: ResolvedPath): Promise<string> {
    return this.documents.withLock(target, () => this.text(target));
  }

  /** The text of a file, including unsaved changes. */
  async text(target: ResolvedPath): Promise<string> {
    const unsaved = await this.documents.unsaved(target.real);
    if (unsaved !== undefined) return unsaved;
    const advice = "Look at parts of it with a program in the shell";
    return decode(await readBytes(target, advice), target.displayPath).content;
  }

  async write(args: ArgsOf<"write">, cwd: string): Promise<ObservationBody<"write">> {
    const { start = 0, end = -1 } = args;
    ensureRange(start, end);
    const target = await this.resolver.find(args.path, cwd);
    const content = endWithNewline(args.content);
    const change = async (): Promise<void> => {
      this.documents.ensureSaved(target);
      const data = await this.documents.load(target);
      if (!data) return this.documents.create(target, content);
      const isWhole = start === 0 && end === -1;
      const text = isWhole
        ? content
        : withLines(
            decode(data, target.displayPath).content,
            content,
            start,
            end,
            target.displayPath,
          );
      await this.documents.replace(target, data, text);
    };
    await this.documents.withLock(target, () => this.documents.retryIfChanged(target, change));
    return observe("write", "", { path: target.displayPath });
  }

  async makeDir(args: ArgsOf<"mkdir">, cwd: string): Promise<ObservationBody<"mkdir">> {
    const { displayPath, real } = await this.resolver.find(args.path, cwd);
    const stats = await stat(real).catch(() => undefined);
    if (stats && !stats.isDirectory())
      throw new Failure("path.exists", `${args.path} exists, or leads through a file`);
    const first = await withPathErrors(displayPath, () => mkdir(real, { recursive: true }));
    return observe("mkdir", "", { path: displayPath, created: first !== undefined });
  }

  /** A symbolic link to a directory is not removed, nor is its target. */
  async removeDir(args: ArgsOf<"rmdir">, cwd: string): Promise<ObservationBody<"rmdir">> {
    const target = await this.resolver.find(args.path, cwd, { follow: false });
    const { displayPath, real } = target;
    return withPathErrors(displayPath, async () => {
      const stats = await lstat(real);
      if (!stats.isDirectory())
        throw new Failure(
          "path.not_directory",
          `${displayPath} is not a directory; remove it as a file`,
        );
      if (await this.resolver.holdsRoot(real))
        throw new Failure(
          "path.permission",
          `${displayPath} is a workspace folder, or contains one, so it is not removed. Remove its contents instead`,
        );
      this.documents.ensureSavedBelow(target);
      if (args.recursive) await rm(real, { recursive: true });
      else await rmdir(real);
      return observe("rmdir", "", { path: displayPath });
    });
  }

  async remove(args: ArgsOf<"rm">, cwd: string): Promise<ObservationBody<"rm">> {
    const target = await this.resolver.find(args.path, cwd, { follow: false });
    const { displayPath, real } = target;
    return this.documents.withLock(target, () =>
      withPathErrors(displayPath, async () => {
        if ((await lstat(real)).isDirectory())
          throw new Failure("path.is_directory", `${displayPath} is a directory; remove it as one`);
        this.documents.ensureSaved(target);
        await unlink(real);
        return observe("rm", "", { path: displayPath });
      }),
    );
  }

  /** With `depth` above 1, the entries of a directory follow directly after it. */
  async list(args: ArgsOf<"list">, cwd: string): Promise<ObservationBody<"list">> {
    const { depth = 1, limit = 1000, include_hidden: hidden = true } = args;
    if (depth < 1 || limit < 1)
      throw new Failure("file.invalid_range", "`depth` and `limit` of a listing are 1 or more");
    const { displayPath, real } = await this.resolver.find(args.path ?? ".", cwd);
    const entries: DirEntry[] = [];
    await withPathErrors(displayPath, async () => {
      for await (const entry of walk(real, "", depth, hidden))
        if (entries.push(entry) > limit) break;
    });
    const truncated = entries.length > limit;
    entries.length = Math.min(entries.length, limit);
    const lines = entries.map((entry) => entry.path + (entry.type === "directory" ? "/" : ""));
    if (truncated) lines.push(`(only the first ${limit} entries; list a directory inside)`);
    return observe("list", lines.join("\n"), { path: displayPath, entries, truncated });
  }
}

export async function readBytes(target: ResolvedPath, advice: string): Promise<Buffer> {
  return withPathErrors(target.displayPath, async () => {
    const stats = await stat(target.real);
    if (stats.isDirectory())
      throw new Failure(
        "path.is_directory",
        `Path is a directory: ${target.displayPath}. This works on files only`,
      );
    if (!stats.isFile())
      throw new Failure(
        "path.invalid",
        `${target.displayPath} is a pipe, socket or device, not a file`,
      );
    if (stats.size > MAX_READ_BYTES)
      throw new Failure(
        "file.too_large",
        `${target.displayPath} has ${stats.size.toLocaleString("en")} bytes, past the limit of ` +
          `${MAX_READ_BYTES.toLocaleString("en")}. ${advice}`,
      );
    return readFile(target.real);
  });
}

function withLines(
  old: string,
  content: string,
  start: number,
  end: number,
  displayPath: string,
): string {
  const lineCount = countLines(old);
  if (start > lineCount)
    throw new Failure(
      "file.invalid_range",
      `${displayPath} has ${lineCount} lines; none can be written after line ${start}`,
    );
  const first = skipLines(old, start);
  const after = end === -1 ? "" : old.slice(skipLines(old, end - start, first));
  return endWithNewline(old.slice(0, first)) + content + after;
}

function ensureRange(start: number, end: number): void {
  if (start < 0 || end < -1 || (end !== -1 && end < start))
    throw new Failure(
      "file.invalid_range",
      `Lines ${start} to ${end} are not a valid range: \`start\` counts from 0, \`end\` is the first line` +
        " left out, or -1 for all that follow",
    );
}

async function* walk(
  directory: string,
  prefix: string,
  depth: number,
  hidden: boolean,
): AsyncIterable<DirEntry> {
  const found = (await readdir(directory, { withFileTypes: true })).filter(
    (entry) => hidden || !entry.name.startsWith("."),
  );
  found.sort(directoriesFirst);
  for (const entry of found) {
    const full = path.join(directory, entry.name);
    const info = await lstat(full).catch(() => undefined);
    if (!info) continue; // the file was removed meanwhile
    yield {
      path: prefix + entry.name,
      type: kindOf(entry),
      size: info.size,
      modified: info.mtimeMs / 1000,
    };
    if (entry.isDirectory() && depth > 1) {
      try {
        yield* walk(full, `${prefix}${entry.name}/`, depth - 1, hidden);
      } catch (error) {
        if (!["path.permission", "path.not_found"].includes(asFailure(error, full).code))
          throw error;
      }
    }
  }
}

function kindOf(entry: Dirent): "file" | "directory" | "link" | "other" {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "directory";
  return entry.isSymbolicLink() ? "link" : "other";
}

function directoriesFirst(a: Dirent, b: Dirent): number {
  if (a.isDirectory() !== b.isDirectory()) return a.isDirectory() ? -1 : 1;
  const [x, y] = [a.name.toLowerCase(), b.name.toLowerCase()];
  if (x !== y) return x < y ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}
