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
export const READ_LIMIT = 32 << 20;

const MEDIA: Record<string, string> = {
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
    const media = MEDIA[path.extname(args.path).toLowerCase()];
    const content = media
      ? `data:${media};base64,${(await bytes(target, "Copy it out instead")).toString("base64")}`
      : sliceLines(await this.text(target), start, end);
    return observe("read", content, { path: target.shown, impl_source: "default" });
  }

  /** The text of a file, including unsaved changes. */
  async text(target: ResolvedPath): Promise<string> {
    const unsaved = await this.documents.unsaved(target.real);
    if (unsaved !== undefined) return unsaved;
    const advice = "Look at parts of it with a program in the shell";
    return decode(await bytes(target, advice), target.shown).content;
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
        : withLines(decode(data, target.shown).content, content, start, end, target.shown);
      await this.documents.replace(target, data, text);
    };
    await this.documents.turn(target, () => this.documents.retrying(target, change));
    return observe("write", "", { path: target.shown });
  }

  async makeDir(args: ArgsOf<"mkdir">, cwd: string): Promise<ObservationBody<"mkdir">> {
    const { shown, real } = await this.resolver.find(args.path, cwd);
    const stats = await stat(real).catch(() => undefined);
    if (stats && !stats.isDirectory())
      throw new Failure("path.exists", `${args.path} exists, or leads through a file`);
    const first = await withPathErrors(shown, () => mkdir(real, { recursive: true }));
    return observe("mkdir", "", { path: shown, created: first !== undefined });
  }

  /** A symbolic link to a directory is not removed, nor is its target. */
  async removeDir(args: ArgsOf<"rmdir">, cwd: string): Promise<ObservationBody<"rmdir">> {
    const target = await this.resolver.find(args.path, cwd, { follow: false });
    const { shown, real } = target;
    return withPathErrors(shown, async () => {
      const stats = await lstat(real);
      if (!stats.isDirectory())
        throw new Failure("path.not_directory", `${shown} is not a directory; remove it as a file`);
      if (await this.resolver.holdsRoot(real))
        throw new Failure(
          "path.permission",
          `${shown} is a workspace folder, or contains one, so it is not removed. Remove its contents instead`,
        );
      this.documents.ensureSavedBelow(target);
      if (args.recursive) await rm(real, { recursive: true });
      else await rmdir(real);
      return observe("rmdir", "", { path: shown });
    });
  }

  async remove(args: ArgsOf<"rm">, cwd: string): Promise<ObservationBody<"rm">> {
    const target = await this.resolver.find(args.path, cwd, { follow: false });
    const { shown, real } = target;
    return this.documents.turn(target, () =>
      withPathErrors(shown, async () => {
        if ((await lstat(real)).isDirectory())
          throw new Failure("path.is_directory", `${shown} is a directory; remove it as one`);
        this.documents.ensureSaved(target);
        await unlink(real);
        return observe("rm", "", { path: shown });
      }),
    );
  }

  /** With `depth` above 1, the entries of a directory follow directly after it. */
  async list(args: ArgsOf<"list">, cwd: string): Promise<ObservationBody<"list">> {
    const { depth = 1, limit = 1000, include_hidden: hidden = true } = args;
    if (depth < 1 || limit < 1)
      throw new Failure("file.invalid_range", "`depth` and `limit` of a listing are 1 or more");
    const { shown, real } = await this.resolver.find(args.path ?? ".", cwd);
    const entries: DirEntry[] = [];
    await withPathErrors(shown, async () => {
      for await (const entry of walk(real, "", depth, hidden))
        if (entries.push(entry) > limit) break;
    });
    const truncated = entries.length > limit;
    entries.length = Math.min(entries.length, limit);
    const lines = entries.map((entry) => entry.path + (entry.type === "directory" ? "/" : ""));
    if (truncated) lines.push(`(only the first ${limit} entries; list a directory inside)`);
    return observe("list", lines.join("\n"), { path: shown, entries, truncated });
  }
}

export async function bytes(target: ResolvedPath, advice: string): Promise<Buffer> {
  return withPathErrors(target.shown, async () => {
    const stats = await stat(target.real);
    if (stats.isDirectory())
      throw new Failure(
        "path.is_directory",
        `Path is a directory: ${target.shown}. This works on files only`,
      );
    if (!stats.isFile())
      throw new Failure("path.invalid", `${target.shown} is a pipe, socket or device, not a file`);
    if (stats.size > READ_LIMIT)
      throw new Failure(
        "file.too_large",
        `${target.shown} has ${stats.size.toLocaleString("en")} bytes, past the limit of ` +
          `${READ_LIMIT.toLocaleString("en")}. ${advice}`,
      );
    return readFile(target.real);
  });
}

function withLines(
  old: string,
  content: string,
  start: number,
  end: number,
  shown: string,
): string {
  const lineCount = countLines(old);
  if (start > lineCount)
    throw new Failure(
      "file.invalid_range",
      `${shown} has ${lineCount} lines; none can be written after line ${start}`,
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
    if (!info) continue; // removed meanwhile
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
