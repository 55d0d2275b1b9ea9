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

const EDIT_LIMIT = 10 << 20;
const HISTORY_DEPTH = 10;
const COMMANDS = "view, create, str_replace, insert, undo_edit";
const DOCUMENTS = new Set([".docx", ".xlsx", ".pptx", ".pdf", ".mp3", ".wav", ".m4a", ".flac"]);
const REVIEW =
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
    const done = await this.do(args, cwd).catch(async (error: unknown): Promise<EditResult> => {
      if (!(error instanceof Failure)) throw error;
      const existed = await this.exists(args.path, cwd);
      return {
        content: `ERROR:
${error.message}`,
        existed,
        code: error.code,
      };
    });
    return observe("edit", done.content, {
      path: this.shown(args.path, cwd),
      prev_exist: done.existed,
      old_content: args.old_str ?? null,
      new_content: args.new_str ?? null,
      impl_source: "oh_aci",
      diff: done.diff ?? "",
      error_id: done.code ?? "",
    });
  }

  /** Answers a `read` action with the output of the `view` command. */
  async view(args: ArgsOf<"read">, cwd: string): Promise<ObservationBody<"read">> {
    const path = this.shown(args.path, cwd);
    const extras = { path, impl_source: "oh_aci" } as const;
    try {
      return observe("read", await this.show(args.path, args.view_range, cwd), extras);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return observe("read", `ERROR:\n${error.message}`, { ...extras, error_id: error.code });
    }
  }

  private async do(args: Edit, cwd: string): Promise<EditResult> {
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
    const { shown } = target;
    await this.documents
      .turn(target, () => this.documents.create(target, text))
      .catch((error: unknown) => {
        if (!(error instanceof Failure) || error.code !== "path.exists") throw error;
        throw new Failure(
          "path.exists",
          `${invalidPath(shown)} File already exists at: ${shown}.` +
            " `create` overwrites nothing; change it with `str_replace` or `insert`.",
        );
      });
    return {
      content: `File created successfully at: ${shown}`,
      existed: false,
      diff: unifiedDiff("", text, shown),
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
      replaceOnce(text, asText(old), asText(args.new_str ?? ""), target.shown),
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
    rule: (file: OpenedFile) => Edited,
  ): Promise<EditResult> {
    return this.opened(args.path, cwd, async (file) => {
      const { target, data, text } = file;
      const edited = rule(file);
      const after = await this.documents.replace(target, data, edited.content);
      const edits = this.history.get(target.real) ?? [];
      this.history.set(target.real, [...edits, { before: data, after }].slice(-HISTORY_DEPTH));
      const snippet = showSnippet(edited.content, edited.line, edited.lines, target.shown);
      return {
        content: `The file ${target.shown} has been edited. ${snippet}${REVIEW}`,
        existed: true,
        diff: unifiedDiff(text, edited.content, target.shown),
      };
    });
  }

  /** Reverts the last edit only. Later changes by others stay in the file. */
  private async undo(args: Edit, cwd: string): Promise<EditResult> {
    return this.opened(args.path, cwd, async ({ target, data, text }) => {
      const { shown } = target;
      const versions = this.history.get(target.real) ?? [];
      const last = versions.at(-1);
      if (!last) throw new Failure("edit.no_history", `No edit history found for ${shown}.`);
      const [before, after, now] = [last.before, last.after, data].map(
        (bytes) => decode(bytes, shown).content,
      ) as [string, string, string];
      const undone = withoutEdit(before, after, now);
      if (undone === undefined)
        throw new Failure(
          "edit.conflict",
          `${shown} was changed since the last edit, in the same lines or right beside them; ` +
            "nothing was undone. Look at it with `view` and use `str_replace`",
        );
      await this.documents.replace(target, data, undone);
      this.history.set(target.real, versions.slice(0, -1));
      const view = showFile(unixLines(undone), shown, { whole: undone });
      return {
        content: `Last edit to ${shown} undone successfully. ${view}`,
        existed: true,
        diff: unifiedDiff(text, unixLines(undone), shown),
      };
    });
  }

  /** Reads a text file and runs `work` on it while no other action changes the file. */
  private async opened(
    given: string,
    cwd: string,
    work: (file: OpenedFile) => Promise<EditResult>,
  ): Promise<EditResult> {
    const target = await this.existing(given, cwd);
    const { shown } = target;
    const change = async (): Promise<EditResult> => {
      this.documents.ensureSaved(target);
      const data = await this.documents.load(target);
      if (!data) throw missing(shown);
      if (data.length > EDIT_LIMIT)
        throw new Failure(
          "file.too_large",
          `${shown} has ${data.length.toLocaleString("en")} bytes, past the limit of ` +
            `${EDIT_LIMIT.toLocaleString("en")}. Change it with a program in the shell`,
        );
      const { content, format } = readable(data, shown);
      const asText = (text: string): string => (format.crlf ? unixLines(text) : text);
      return work({ target, data, text: asText(content), asText });
    };
    return this.documents.turn(target, () => this.documents.retrying(target, change));
  }

  private async existing(given: string, cwd: string): Promise<ResolvedPath> {
    const target = await this.resolver.find(given, cwd, { toRead: true });
    const { shown } = target;
    const stats = await stat(target.real).catch(() => undefined);
    if (!stats) throw missing(shown);
    if (stats.isDirectory())
      throw new Failure(
        "path.is_directory",
        `${invalidPath(shown)} The path ${shown} is a directory, which only \`view\` shows.`,
      );
    ensureNoDocument(shown);
    return target;
  }

  private async show(
    given: string,
    range: readonly number[] | null | undefined,
    cwd: string,
  ): Promise<string> {
    const { shown, real } = await this.resolver.find(given, cwd, { toRead: true });
    if (
      await stat(real).then(
        (stats) => stats.isDirectory(),
        () => false,
      )
    ) {
      if (range?.length)
        throw new Failure("edit.invalid", "`view_range` is for files; a directory is viewed whole");
      return showDirectory(real, shown);
    }
    const target = await this.existing(given, cwd);
    const text = unixLines(
      await this.files.text(target).catch((error: unknown) => {
        throw error instanceof Failure && error.code === "file.binary" ? notText(shown) : error;
      }),
    );
    return range?.length ? viewLines(text, range, shown) : showFile(text, shown, { whole: text });
  }

  private shown(given: string, cwd: string): string {
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

function viewLines(text: string, range: readonly number[], shown: string): string {
  const [first, last] = asRange(range);
  const found = sliceLines(text, first - 1, last);
  if (!found)
    throw new Failure(
      "file.invalid_range",
      `${invalidRange(range)} ${shown} has lines [1, ${countLines(text)}];` +
        ` the first element \`${first}\` should be one of them.`,
    );
  const view = showFile(found.replace(/\n$/, ""), shown, { first });
  const end = first + countLines(found) - 1;
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

function readable(data: Buffer, shown: string): ReturnType<typeof decode> {
  try {
    return decode(data, shown);
  } catch {
    throw notText(shown);
  }
}

function notText(shown: string): Failure {
  return new Failure("file.binary", `${shown} is not text and cannot be viewed or edited here`);
}

function missing(shown: string): Failure {
  return new Failure(
    "path.not_found",
    `${invalidPath(shown)} The path ${shown} does not exist.` +
      " Look for it with `view` on a directory, or make it with `create`.",
  );
}

function invalidPath(shown: string): string {
  return `Invalid \`path\` parameter: ${shown}.`;
}

function invalidRange(range: readonly number[]): string {
  return `Invalid \`view_range\` parameter: [${range.join(", ")}].`;
}

function ensureNoDocument(shown: string): void {
  if (DOCUMENTS.has(path.extname(shown).toLowerCase()))
    throw new Failure(
      "capability.missing",
      `${shown} is a document or recording, and those are not turned into text here.` +
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
