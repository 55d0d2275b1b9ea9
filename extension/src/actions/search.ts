/** The glob and grep actions. They run the ripgrep of VS Code, or else `rg` from PATH. */
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { stat } from "node:fs/promises";
import * as path from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { Failure } from "../common/failure";
import { observe, type ArgsOf, type GrepMatch, type ObservationBody } from "../protocol";
import { compileGlob } from "./globs";
import { withPathErrors, type PathResolver } from "./paths";

/** Default timeout in seconds. */
const DEFAULT_TIMEOUT_SECONDS = 30;
/** Share of the timeout for the search; the remaining time is for sending the result. */
const SEARCH_SHARE = 0.9;
/** Maximum characters of a matching line, and of its part before the match. */
const MAX_LINE_CHARS = 1000;
const MAX_CHARS_BEFORE_MATCH = 200;

/** Returns the editor's unsaved texts by file. */
export type Unsaved = () => Promise<ReadonlyMap<string, string>>;

export class Search {
  constructor(
    private readonly resolver: PathResolver,
    private readonly unsaved: Unsaved,
    private readonly ripgrep: string | undefined,
  ) {}

  /**
   * Files below `path` that match, newest first. `*.py` matches in that directory only, `**` at any
   * depth.
   */
  async glob(
    args: ArgsOf<"glob">,
    cwd: string,
    timeout?: number,
  ): Promise<ObservationBody<"glob">> {
    const limit = ensureLimit(args.limit ?? 100);
    const isMatch = compileGlob(args.pattern);
    const { displayPath, real } = await this.resolver.find(args.path ?? ".", cwd);
    await ensureDirectory(real, displayPath);
    const found: { path: string; modified: number }[] = [];
    const child = this.child(
      ["--files", "--null", ...ignoreOptions(args.include_ignored ?? false), "./"],
      real,
      timeout,
    );
    for await (const piece of pieces(child.stdout, "\0")) {
      const file = piece.replace(/^\.\//, "");
      if (isMatch(file))
        found.push({ path: file, modified: modificationTime(path.join(real, file)) });
    }
    const { timedOut } = await child.end();
    found.sort((a, b) => b.modified - a.modified || (a.path < b.path ? -1 : 1));
    const paths = found.slice(0, limit).map((each) => joined(displayPath, each.path));
    const note = timedOut ? TIMEOUT_NOTE : found.length > limit ? limitNote(limit, "files") : "";
    const lines = paths.length ? paths : [`No files match '${args.pattern}' in ${displayPath}`];
    return observe("glob", lines.join("\n") + note, {
      path: displayPath,
      pattern: args.pattern,
      paths,
      truncated: note !== "",
    });
  }

  /** Matching lines in files below `path`, or in `path` itself, sorted by file and line. */
  async grep(
    args: ArgsOf<"grep">,
    cwd: string,
    timeout?: number,
  ): Promise<ObservationBody<"grep">> {
    const limit = ensureLimit(args.limit ?? 100);
    ensureLinePattern(args.pattern);
    const isMatch = compileGlob(args.include ?? "");
    const { displayPath, real } = await this.resolver.find(args.path ?? ".", cwd);
    const isFile = (await withPathErrors(displayPath, () => stat(real))).isFile();
    const wanted = (file: string): boolean =>
      isFile || !args.include || isMatch(args.include.includes("/") ? file : path.basename(file));
    const { hits, timedOut } = await this.hits({ args, real, isFile, limit, wanted, timeout });
    const matches = hits.slice(0, limit).map((hit): GrepMatch => ({
      ...hit,
      path: isFile ? displayPath : joined(displayPath, hit.path),
    }));
    const note = timedOut ? TIMEOUT_NOTE : hits.length > limit ? limitNote(limit, "lines") : "";
    const lines = matches.map((match) => `${match.path}:${match.line}:${match.text}`);
    const none = `No lines match '${args.pattern}' in ${displayPath}`;
    return observe("grep", (lines.length ? lines.join("\n") : none) + note, {
      path: displayPath,
      pattern: args.pattern,
      matches,
      truncated: note !== "",
    });
  }

  private async hits(request: GrepRequest): Promise<{ hits: GrepMatch[]; timedOut: boolean }> {
    try {
      return await this.search(request, []);
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "search.invalid_pattern") throw error;
      // PCRE2 supports expressions that the default engine does not, such as look-ahead.
      return this.search(request, ["--pcre2"]).catch(() => Promise.reject(error));
    }
  }

  private async search(
    request: GrepRequest,
    engine: string[],
  ): Promise<{ hits: GrepMatch[]; timedOut: boolean }> {
    const { args, real, isFile, limit, wanted, timeout } = request;
    const options = [...engine, "--json", "--crlf", "--sort=path", `--max-count=${limit + 1}`];
    options.push(...ignoreOptions(args.include_ignored ?? false));
    if (args.ignore_case) options.push("--ignore-case");
    if (args.literal) options.push("--fixed-strings");
    options.push("--regexp", args.pattern, "--");
    const cwd = isFile ? path.dirname(real) : real;
    const target = isFile ? `./${path.basename(real)}` : "./";
    const unsaved = await this.unsavedBelow(cwd, isFile ? path.basename(real) : undefined);
    const child = this.child([...options, target], cwd, timeout);
    const hits: GrepMatch[] = [];
    for await (const hit of matchesOf(child.stdout)) {
      if (unsaved.has(hit.path) || !wanted(hit.path)) continue;
      hits.push(hit);
      if (hits.length > limit && !unsaved.size) break;
    }
    const { timedOut, error } = await child.end();
    if (error)
      throw new Failure(
        "search.invalid_pattern",
        `'${args.pattern}' is not a regular expression: ${error}`,
      );
    for (const [file, text] of unsaved) {
      if (!wanted(file)) continue;
      const buffer = this.child([...options, "-"], cwd, timeout, text);
      for await (const hit of matchesOf(buffer.stdout)) hits.push({ ...hit, path: file });
      await buffer.end();
    }
    if (unsaved.size) hits.sort((a, b) => compare(a.path, b.path) || a.line - b.line);
    return { hits, timedOut };
  }

  private async unsavedBelow(directory: string, only?: string): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (const [file, text] of await this.unsaved()) {
      const relative = path.relative(directory, file);
      if (relative.startsWith("..") || (only !== undefined && relative !== only)) continue;
      found.set(relative, text);
    }
    return found;
  }

  private child(
    options: string[],
    cwd: string,
    timeout: number | undefined,
    input?: string,
  ): RipgrepProcess {
    if (!this.ripgrep)
      throw new Failure(
        "machine.missing_tool",
        "Searching needs ripgrep (`rg`), which this VS Code does not include; install it",
      );
    const ms = (timeout ?? DEFAULT_TIMEOUT_SECONDS) * 1000 * SEARCH_SHARE;
    return new RipgrepProcess(this.ripgrep, options, cwd, ms, input);
  }
}

/** The path of the ripgrep that VS Code includes, or else of `rg` in PATH. */
export function findRipgrep(appRoot: string): string | undefined {
  const name = process.platform === "win32" ? "rg.exe" : "rg";
  const here = `${process.platform}-${process.arch}`;
  const inside = ["node_modules", "node_modules.asar.unpacked"].flatMap((modules) => [
    path.join(appRoot, modules, "@vscode/ripgrep/bin", name),
    path.join(appRoot, modules, "@vscode/ripgrep-universal/bin", here, name),
  ]);
  const onPath = (process.env.PATH ?? "")
    .split(path.delimiter)
    .map((directory) => path.join(directory, name));
  return [...inside, ...onPath].find((file) => fs.existsSync(file));
}

interface GrepRequest {
  args: ArgsOf<"grep">;
  real: string;
  isFile: boolean;
  limit: number;
  wanted: (file: string) => boolean;
  timeout: number | undefined;
}

/** A ripgrep process. It exits by itself, at the timeout, or when `end` closes its output. */
class RipgrepProcess {
  readonly stdout: Readable;
  private readonly process;
  private readonly timer: NodeJS.Timeout;
  private readonly closed: Promise<number | null>;
  private timedOut = false;
  private stderr = "";

  constructor(program: string, options: string[], cwd: string, ms: number, input?: string) {
    this.process = spawn(program, options, {
      cwd,
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    const { stdout, stderr, stdin } = this.process;
    if (!stdout || !stderr) throw new Failure("internal", "the search has no output");
    this.stdout = stdout;
    stderr.setEncoding("utf8").on("data", (text: string) => {
      if (this.stderr.length < 4096) this.stderr += text;
    });
    this.closed = new Promise((resolve, reject) => {
      this.process.on("error", reject).on("close", resolve);
    });
    this.timer = setTimeout(() => {
      this.timedOut = true;
      this.process.kill("SIGKILL");
    }, ms);
    stdin?.on("error", () => undefined).end(input);
  }

  async end(): Promise<{ timedOut: boolean; error: string }> {
    // If the caller stopped reading early, the closed pipe ends ripgrep.
    if (this.process.exitCode === null) this.stdout.destroy();
    const status = await this.closed.finally(() => clearTimeout(this.timer));
    return { timedOut: this.timedOut, error: status === 2 ? this.stderr.trim() || "refused" : "" };
  }
}

async function* pieces(stream: Readable, separator: string): AsyncIterable<string> {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8") as AsyncIterable<string>) {
    const parts = (rest + chunk).split(separator);
    rest = parts.pop() ?? "";
    yield* parts;
  }
}

interface RipgrepMessage {
  type: string;
  data: {
    path: Bytes;
    lines: Bytes;
    line_number: number;
    submatches: { start: number }[];
    binary_offset: number | null;
  };
}

type Bytes = { text: string } | { bytes: string };

/** Matches file by file. Only the `end` message of a file shows whether the file is binary. */
async function* matchesOf(stream: Readable): AsyncIterable<GrepMatch> {
  let held: GrepMatch[] = [];
  for await (const line of createInterface({ input: stream, crlfDelay: Infinity })) {
    const { type, data } = JSON.parse(line) as RipgrepMessage;
    if (type === "begin") held = [];
    else if (type === "match") held.push(matchOf(data));
    else if (type === "end" && data.binary_offset === null) yield* held;
  }
}

function matchOf(data: RipgrepMessage["data"]): GrepMatch {
  const line = bytesOf(data.lines)
    .toString("utf8")
    .replace(/\r?\n$/, "");
  const first = data.submatches[0]?.start ?? 0;
  const at = bytesOf(data.lines).subarray(0, first).toString("utf8").length;
  const file = bytesOf(data.path).toString("utf8").replace(/^\.\//, "");
  return { path: file, line: data.line_number, text: excerpt(line, at) };
}

/** Shortens a long line to the part around the match at position `at`. */
function excerpt(line: string, at: number): string {
  if (line.length <= MAX_LINE_CHARS) return line;
  const start = Math.max(0, Math.min(at - MAX_CHARS_BEFORE_MATCH, line.length - MAX_LINE_CHARS));
  const end = start + MAX_LINE_CHARS;
  return `${start ? "…" : ""}${line.slice(start, end)}${end < line.length ? "…" : ""}`;
}

function bytesOf(value: Bytes): Buffer {
  return "bytes" in value ? Buffer.from(value.bytes, "base64") : Buffer.from(value.text);
}

function ignoreOptions(includeIgnored: boolean): string[] {
  const all = ["--no-config", "--no-messages", "--hidden", "--no-require-git"];
  all.push("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot");
  all.push(...[".git", ".hg", ".svn"].map((name) => `--glob=!${name}`));
  return includeIgnored ? [...all, "--no-ignore"] : all;
}

async function ensureDirectory(real: string, displayPath: string): Promise<void> {
  if (!(await withPathErrors(displayPath, () => stat(real))).isDirectory())
    throw new Failure(
      "path.not_directory",
      `${displayPath} is not a directory, or leads through a file`,
    );
}

function ensureLimit(limit: number): number {
  if (limit < 1) throw new Failure("file.invalid_range", "`limit` of a search must be 1 or more");
  return limit;
}

function ensureLinePattern(pattern: string): void {
  if (!pattern)
    throw new Failure("search.invalid_pattern", "The pattern is empty and would match every line");
  if (/[\n\0]/.test(pattern))
    throw new Failure(
      "search.invalid_pattern",
      "A pattern matches within one line, so it must not contain a newline or NUL",
    );
}

function modificationTime(file: string): number {
  return fs.lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function joined(displayPath: string, file: string): string {
  return `${displayPath.replace(/\/+$/, "")}/${file}`;
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

const TIMEOUT_NOTE = "\n(out of time: there may be more; narrow the search or give it longer)";

function limitNote(limit: number, what: string): string {
  return `\n(only the first ${limit} ${what}; narrow the search or raise \`limit\`)`;
}
