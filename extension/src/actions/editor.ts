/**
 * The editor commands of agents: view, create, str_replace, insert, undo_edit.
 *
 * A failed edit is not an `error` observation. It is an `edit` observation whose content starts
 * with `ERROR:`, because agents' clients expect that. The error code is in `error_id`.
 */
import { stat } from "node:fs/promises";
import * as path from "node:path";
import { Failure } from "../common/failure";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import { unifiedDiff } from "./diff";
import type { Documents } from "./documents";
import { insertLines, replaceOnce, withoutEdit, type Edited } from "./edits";
import type { Files } from "./files";
import { countLines, sliceLines, unixLines } from "./lines";
import type { ResolvedPath, PathResolver } from "./paths";
import { decode } from "./text_encoding";
import { showDirectory, showFile, showSnippet } from "./editor_view";

const MAX_EDIT_BYTES = 10 << 20;
const MAX_UNDO_STEPS = 10;
const COMMANDS = "view, create, str_replace, insert, undo_edit";
const DOCUMENT_EXTENSIONS = new Set([
  ".docx",
  ".xlsx",
  ".pptx",
  ".pdf",
  ".mp3",
  ".wav",
  ".m4a",
  ".flac",
]);
const REVIEW_ADVICE =
  "Review the changes and make sure they are as expected. Edit the file again if necessary.";

type Edit = ArgsOf<"edit">;

interface EditResult {
  content: string;
  existed: boolean;
  diff?: string;
  /** Error code, if the edit failed. */
  code?: string;
}

/** An edit that was made: the bytes of the file before and after it. */
interface PastEdit {
  before: Buffer;
  after: Buffer;
}

interface OpenedFile {
  target: ResolvedPath;
  data: Buffer;
  /** The content. If every line ends in CR LF, line endings are converted to LF. */
  text: string;
  /** Converts the line endings of an argument to those of `text`. */
  asText: (given: string) => string;
}

export class Editor {
  /** The edits of each file, newest last. */
  private readonly history = new Map<string, PastEdit[]>();

  constructor(
    private readonly resolver: PathResolver,
    private readonly documents: Documents,
    private readonly files: Files,
  ) {}

  /**
   * `old_content` and `new_content` repeat the request, as clients expect. `diff` is the change.
   */
  async edit(args: Edit, cwd: string): Promise<ObservationBody<"edit">> {
    if (args.impl_source === "llm_based_edit")
      throw new Failure("capability.missing", "Edits by 'llm_based_edit' are made by the client");
    const result = await this.perform(args, cwd).catch(
      async (error: unknown): Promise<EditResult> => {
        if (!(error instanceof Failure)) throw error;
        const existed = await this.exists(args.path, cwd);
        return {
          content: `ERROR:
${error.message}`,
          existed,
          code: error.code,
        };
      },
    );
    return observe("edit", result.content, {
      path: this.displayPathOf(args.path, cwd),
      prev_exist: result.existed,
      old_content: args.old_str ?? null,
      new_content: args.new_str ?? null,
      impl_source: "oh_aci",
      diff: result.diff ?? "",
      error_id: result.code ?? "",
    });
  }

  /** Answers a `read` action with the output of the `view` command. */
  async view(args: ArgsOf<"read">, cwd: string): Promise<ObservationBody<"read">> {
    const path = this.displayPathOf(args.path, cwd);
    const extras = { path, impl_source: "oh_aci" } as const;
    try {
      return observe("read", await this.show(args.path, args.view_range, cwd), extras);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return observe("read", `ERROR:\n${error.message}`, { ...extras, error_id: error.code });
    }
  }

  private async perform(args: Edit, cwd: string): Promise<EditResult> {
    switch (args.command) {
      case "view":
        return { content: await this.show(args.path, args.view_range, cwd), existed: true };
      case "create":
        return this.create(args, cwd);
      case "str_replace":
        return this.replace(args, cwd);
      case "insert":
        return this.insert(args, cwd);
      case "undo_edit":
        return this.undo(args, cwd);
      default:
        throw new Failure(
          "edit.invalid",
          `Unrecognized command '${args.command ?? ""}'. Known commands: ${COMMANDS}`,
        );
    }
  }

  private async create(args: Edit, cwd: string): Promise<EditResult> {
    const text = required(args.file_text, "file_text", args);
    ensureNoDocument(args.path);
    const target = await this.resolver.find(args.path, cwd);
    const { displayPath } = target;
    await this.documents
      .withLock(target, () => this.documents.create(target, text))
      .catch((error: unknown) => {
        if (!(error instanceof Failure) || error.code !== "path.exists") throw error;
        throw new Failure(
          "path.exists",
          `${invalidPath(displayPath)} File already exists at: ${displayPath}.` +
            " `create` overwrites nothing; change it with `str_replace` or `insert`.",
        );
      });
    return {
      content: `File created successfully at: ${displayPath}`,
      existed: false,
      diff: unifiedDiff("", text, displayPath),
    };
  }

  private async replace(args: Edit, cwd: string): Promise<EditResult> {
    const old = required(args.old_str, "old_str", args);
    if (old === args.new_str)
      throw new Failure(
        "edit.invalid",
        "No replacement was performed. `new_str` and `old_str` must be different.",
      );
    return this.change(args, cwd, ({ text, asText, target }) =>
      replaceOnce(text, asText(old), asText(args.new_str ?? ""), target.displayPath),
    );
  }

  private async insert(args: Edit, cwd: string): Promise<EditResult> {
    const given = required(args.insert_line, "insert_line", args);
    const line = Number(given);
    if (!Number.isInteger(line))
      throw new Failure(
        "edit.invalid",
        `Invalid \`insert_line\` parameter: '${given}' is not a number`,
      );
    const inserted = required(args.new_str, "new_str", args);
    return this.change(args, cwd, ({ text, asText }) => insertLines(text, line, asText(inserted)));
  }

  private async change(
    args: Edit,
    cwd: string,
    applyTo: (file: OpenedFile) => Edited,
  ): Promise<EditResult> {
    return this.withOpenedFile(args.path, cwd, async (file) => {
      const { target, data, text } = file;
      const edited = applyTo(file);
      const after = await this.documents.replace(target, data, edited.content);
      const edits = this.history.get(target.real) ?? [];
      this.history.set(target.real, [...edits, { before: data, after }].slice(-MAX_UNDO_STEPS));
      const snippet = showSnippet(edited.content, edited.line, edited.lines, target.displayPath);
      return {
        content: `The file ${target.displayPath} has been edited. ${snippet}${REVIEW_ADVICE}`,
        existed: true,
        diff: unifiedDiff(text, edited.content, target.displayPath),
      };
    });
  }

  /** Reverts the last edit only. Later changes by others stay in the file. */
  private async undo(args: Edit, cwd: string): Promise<EditResult> {
    return this.withOpenedFile(args.path, cwd, async ({ target, data, text }) => {
      const { displayPath } = target;
      const versions = this.history.get(target.real) ?? [];
      const last = versions.at(-1);
      if (!last) throw new Failure("edit.no_history", `No edit history found for ${displayPath}.`);
      const [before, after, now] = [last.before, last.after, data].map(
        (bytes) => decode(bytes, displayPath).content,
      ) as [string, string, string];
      const undone = withoutEdit(before, after, now);
      if (undone === undefined)
        throw new Failure(
          "edit.conflict",
          `${displayPath} was changed since the last edit, in the same lines or right beside them; ` +
            "nothing was undone. Look at it with `view` and use `str_replace`",
        );
      await this.documents.replace(target, data, undone);
      this.history.set(target.real, versions.slice(0, -1));
      const view = showFile(unixLines(undone), displayPath, { whole: undone });
      return {
        content: `Last edit to ${displayPath} undone successfully. ${view}`,
        existed: true,
        diff: unifiedDiff(text, unixLines(undone), displayPath),
      };
    });
  }

  /** Reads a text file and runs `work` on it while no other action changes the file. */
  private async withOpenedFile(
    given: string,
    cwd: string,
    work: (file: OpenedFile) => Promise<EditResult>,
  ): Promise<EditResult> {
    const target = await this.findExisting(given, cwd);
    const { displayPath } = target;
    const change = async (): Promise<EditResult> => {
      this.documents.ensureSaved(target);
      const data = await this.documents.load(target);
      if (!data) throw missingFile(displayPath);
      if (data.length > MAX_EDIT_BYTES)
        throw new Failure(
          "file.too_large",
          `${displayPath} has ${data.length.toLocaleString("en")} bytes, past the limit of ` +
            `${MAX_EDIT_BYTES.toLocaleString("en")}. Change it with a program in the shell`,
        );
      const { content, format } = readable(data, displayPath);
      const asText = (text: string): string => (format.crlf ? unixLines(text) : text);
      return work({ target, data, text: asText(content), asText });
    };
    return this.documents.withLock(target, () => this.documents.retryIfChanged(target, change));
  }

  private async findExisting(given: string, cwd: string): Promise<ResolvedPath> {
    const target = await this.resolver.find(given, cwd, { toRead: true });
    const { displayPath } = target;
    const stats = await stat(target.real).catch(() => undefined);
    if (!stats) throw missingFile(displayPath);
    if (stats.isDirectory())
      throw new Failure(
        "path.is_directory",
        `${invalidPath(displayPath)} The path ${displayPath} is a directory, which only \`view\` shows.`,
      );
    ensureNoDocument(displayPath);
    return target;
  }

  private async show(
    given: string,
    range: readonly number[] | null | undefined,
    cwd: string,
  ): Promise<string> {
    const { displayPath, real } = await this.resolver.find(given, cwd, { toRead: true });
    if (
      await stat(real).then(
        (stats) => stats.isDirectory(),
        () => false,
      )
    ) {
      if (range?.length)
        throw new Failure("edit.invalid", "`view_range` is for files; a directory is viewed whole");
      return showDirectory(real, displayPath);
    }
    const target = await this.findExisting(given, cwd);
    const text = unixLines(
      await this.files.settledText(target).catch((error: unknown) => {
        throw error instanceof Failure && error.code === "file.binary"
          ? notText(displayPath)
          : error;
      }),
    );
    return range?.length
      ? viewLines(text, range, displayPath)
      : showFile(text, displayPath, { whole: text });
  }

  private displayPathOf(given: string, cwd: string): string {
    try {
      return this.resolver.absolute(given, cwd);
    } catch {
      return given;
    }
  }

  private async exists(given: string, cwd: string): Promise<boolean> {
    try {
      await stat((await this.resolver.find(given, cwd)).real);
      return true;
    } catch {
      return false;
    }
  }
}

function viewLines(text: string, range: readonly number[], displayPath: string): string {
  const [firstLine, last] = asRange(range);
  const found = sliceLines(text, firstLine - 1, last);
  if (!found)
    throw new Failure(
      "file.invalid_range",
      `${invalidRange(range)} ${displayPath} has lines [1, ${countLines(text)}];` +
        ` the first element \`${firstLine}\` should be one of them.`,
    );
  const view = showFile(found.replace(/\n$/, ""), displayPath, { firstLine });
  const end = firstLine + countLines(found) - 1;
  return end < last ? `${view}\nNOTE: the file ends with line ${end}.\n` : view;
}

function asRange(range: readonly number[]): [number, number] {
  const [first, last] = range;
  if (range.length !== 2 || first === undefined || last === undefined)
    throw new Failure(
      "file.invalid_range",
      `${invalidRange(range)} It should be a list of two integers.`,
    );
  if (first < 1)
    throw new Failure(
      "file.invalid_range",
      `${invalidRange(range)} Its first element should be 1 or more.`,
    );
  if (last !== -1 && last < first)
    throw new Failure(
      "file.invalid_range",
      `${invalidRange(range)} Its second element \`${last}\` should be greater than or` +
        ` equal to the first element \`${first}\`, or -1 for the end.`,
    );
  return [first, last];
}

function readable(data: Buffer, displayPath: string): ReturnType<typeof decode> {
  try {
    return decode(data, displayPath);
  } catch {
    throw notText(displayPath);
  }
}

function notText(displayPath: string): Failure {
  return new Failure(
    "file.binary",
    `${displayPath} is not text and cannot be viewed or edited here`,
  );
}

function missingFile(displayPath: string): Failure {
  return new Failure(
    "path.not_found",
    `${invalidPath(displayPath)} The path ${displayPath} does not exist.` +
      " Look for it with `view` on a directory, or make it with `create`.",
  );
}

function invalidPath(displayPath: string): string {
  return `Invalid \`path\` parameter: ${displayPath}.`;
}

function invalidRange(range: readonly number[]): string {
  return `Invalid \`view_range\` parameter: [${range.join(", ")}].`;
}

function ensureNoDocument(displayPath: string): void {
  if (DOCUMENT_EXTENSIONS.has(path.extname(displayPath).toLowerCase()))
    throw new Failure(
      "capability.missing",
      `${displayPath} is a document or recording, and those are not turned into text here.` +
        " Use a program in the shell (`pdftotext`, `pandoc`, …)",
    );
}

function required<T>(value: T | null | undefined, name: string, args: Edit): T {
  if (value === null || value === undefined)
    throw new Failure(
      "edit.invalid",
      `Parameter \`${name}\` is required for command: ${args.command ?? ""}.`,
    );
  return value;
}
