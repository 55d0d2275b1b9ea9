/** Source control for agents, through VS Code's git extension, so that the user sees each step. */
import * as path from "node:path";
import * as vscode from "vscode";
import type { PathResolver } from "../actions/paths";
import { within } from "../common/deadline";
import { Failure, messageOf } from "../common/failure";
import { ensurePageRange } from "../common/page_range";
import type { AgentAction } from "../hub/messages";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import { diffParts, partsBelow } from "./diff_parts";
import type { GitApi, GitExtension, GitRepository } from "./git_api";
import { changesOf, statusText, type ChangeGroup } from "./status_items";

/** Milliseconds for the git extension to find the repositories. */
const START_MS = 20_000;
/** Maximum changes in an answer. */
const MAX_ITEMS = 500;

export class AgentGit {
  constructor(
    private readonly resolver: PathResolver,
    /** Waits until written text is on the disk. */
    private readonly settled: () => Promise<void>,
  ) {}

  async status({ repository }: ArgsOf<"git_status">): Promise<ObservationBody<"git_status">> {
    return this.report(await this.chosen(repository));
  }

  async diff(args: ArgsOf<"git_diff">, cwd: string): Promise<ObservationBody<"git_diff">> {
    const { staged = false, offset = 0, limit = 1000 } = args;
    ensurePageRange({ offset, limit });
    const file = args.path ? await this.real(args.path, cwd) : undefined;
    const repository = await this.chosen(args.repository, file);
    const text = await git("diff", () => repository.diff(staged));
    const root = repository.rootUri.fsPath;
    const parts = partsBelow(diffParts(text), file === undefined ? "" : relative(root, file));
    const lines = parts.flatMap((part) => part.lines);
    const shown = lines.slice(offset, offset + limit);
    const truncated = offset + shown.length < lines.length;
    const content = shown.join("\n") || (staged ? "Nothing is staged" : "No unstaged changes");
    const seen = observe("git_diff", content, {
      repository: root,
      files: parts.map((part) => part.path),
      total: lines.length,
      truncated,
    });
    if (!truncated) return seen;
    const next = offset + shown.length;
    return { ...seen, note: `${lines.length} lines; continue with \`offset\` ${next}` };
  }

  async stage(args: ArgsOf<"git_stage">, cwd: string): Promise<ObservationBody<"git_status">> {
    const { repository, paths } = await this.changed(args, cwd, [
      "changed",
      "untracked",
      "conflict",
    ]);
    await git("stage", () => repository.add(paths));
    return this.report(repository);
  }

  async unstage(args: ArgsOf<"git_unstage">, cwd: string): Promise<ObservationBody<"git_status">> {
    const { repository, paths } = await this.changed(args, cwd, ["staged"]);
    await git("unstage", () => repository.revert(paths));
    return this.report(repository);
  }

  async commit(args: ArgsOf<"git_commit">): Promise<ObservationBody<"git_status">> {
    if (!args.commit_message.trim())
      throw new Failure("action.invalid", "`commit_message` is empty; say what was changed");
    const repository = await this.chosen(args.repository);
    ensureStaged(repository);
    const before = repository.state.HEAD?.commit;
    await git("commit", () => repository.commit(args.commit_message));
    await git("read the status", () => repository.status());
    if (repository.state.HEAD?.commit === before)
      throw new Failure("git.failed", "git has made no commit; see the Git log of VS Code");
    return this.report(repository);
  }

  /** What a commit contains, for the question to the user. */
  async shownArguments(action: AgentAction): Promise<Record<string, unknown>> {
    if (action.action !== "git_commit") return {};
    const repository = await this.chosen(action.args.repository);
    ensureStaged(repository);
    const staged = changesOf(repository).filter(({ group }) => group === "staged");
    const root = repository.rootUri.fsPath;
    return {
      branch: repository.state.HEAD?.name ?? "",
      files: staged.map((each) => `${each.change}: ${relative(root, each.path)}`),
    };
  }

  private async changed(
    { paths, repository: name }: { paths: readonly string[]; repository?: string },
    cwd: string,
    groups: readonly ChangeGroup[],
  ): Promise<{ repository: GitRepository; paths: string[] }> {
    if (!paths.length) throw new Failure("action.invalid", "`paths` is empty; name files");
    const files = await Promise.all(paths.map((each) => this.real(each, cwd)));
    const repository = await this.chosen(name, files[0]);
    const changes = changesOf(repository).filter(({ group }) => groups.includes(group));
    for (const [n, file] of files.entries()) {
      const has = changes.some(
        (each) => isIn(each.path, file) || (each.old_path !== null && isIn(each.old_path, file)),
      );
      if (has) continue;
      const all = changes.map((each) => relative(repository.rootUri.fsPath, each.path));
      const listed = all.slice(0, 20).join(", ") + (all.length > 20 ? ", …" : "");
      const which = groups.includes("staged") ? "staged changes" : "changes to stage";
      throw new Failure(
        "git.no_changes",
        `'${paths[n]}' has no ${which}. Files that have: ${listed || "none"}`,
      );
    }
    return { repository, paths: files };
  }

  private async real(given: string, cwd: string): Promise<string> {
    return (await this.resolver.find(given, cwd)).real;
  }

  /** The repository with this name or path, or that of the file. Its status is read again. */
  private async chosen(name = "", file?: string): Promise<GitRepository> {
    await this.settled();
    const api = await gitApi();
    const found = chosenRepository(api, name, file);
    await git("read the status", () => found.status());
    return found;
  }

  private report(repository: GitRepository): ObservationBody<"git_status"> {
    const all = changesOf(repository);
    const items = all.slice(0, MAX_ITEMS);
    const head = repository.state.HEAD;
    const upstream = head?.upstream;
    const truncated = all.length > items.length;
    const seen = observe("git_status", statusText(repository, items), {
      repository: repository.rootUri.fsPath,
      branch: head?.name ?? null,
      commit: head?.commit ?? null,
      upstream: upstream ? `${upstream.remote}/${upstream.name}` : null,
      ahead: head?.ahead ?? 0,
      behind: head?.behind ?? 0,
      items,
      total: all.length,
      truncated,
    });
    return truncated ? { ...seen, note: `Only ${items.length} of ${all.length} changes` } : seen;
  }
}

function chosenRepository(api: GitApi, name: string, file?: string): GitRepository {
  const all = api.repositories;
  const roots = all.map(({ rootUri }) => rootUri.fsPath);
  const listed = roots.join(", ");
  if (!all.length)
    throw new Failure("git.no_repository", "VS Code has found no git repository in this workspace");
  if (name) {
    const named = all.filter((_, n) => roots[n] === name || path.basename(roots[n] ?? "") === name);
    const [first] = named;
    if (first && named.length === 1) return first;
    const problem = first ? `Several repositories are called '${name}'` : `No repository '${name}'`;
    throw new Failure("git.no_repository", `${problem}. There are: ${listed}`);
  }
  const withFile = file === undefined ? null : api.getRepository(vscode.Uri.file(file));
  if (withFile) return withFile;
  const [only] = all;
  if (only && all.length === 1 && file === undefined) return only;
  if (file !== undefined)
    throw new Failure("git.no_repository", `'${file}' is in no git repository of VS Code`);
  throw new Failure(
    "git.no_repository",
    `There are several repositories; name one with \`repository\`: ${listed}`,
  );
}

async function gitApi(): Promise<GitApi> {
  const extension = vscode.extensions.getExtension<GitExtension>("vscode.git");
  if (!extension)
    throw new Failure("capability.missing", "VS Code's git extension is disabled in this window");
  const git = await extension.activate();
  if (!git.enabled)
    throw new Failure(
      "capability.missing",
      "Git is off in this window: the setting git.enabled is false, or git is not installed",
    );
  const api = git.getAPI(1);
  if (api.state !== "initialized") await initialized(api);
  return api;
}

async function initialized(api: GitApi): Promise<void> {
  let listening: vscode.Disposable | undefined;
  const ready = new Promise<void>((resolve) => {
    listening = api.onDidChangeState((state) => {
      if (state === "initialized") resolve();
    });
  });
  const late = (): Error =>
    new Failure("git.failed", "VS Code's git extension has not found the repositories yet");
  try {
    await within(ready, START_MS, late);
  } finally {
    listening?.dispose();
  }
}

function ensureStaged({ state }: GitRepository): void {
  if (state.mergeChanges.length)
    throw new Failure(
      "git.failed",
      "Files are in conflict; resolve and stage them before you commit",
    );
  if (!state.indexChanges.length)
    throw new Failure("git.nothing_staged", "Nothing is staged; `git_stage` stages changes");
}

/** Runs git. Its own message is in `stderr`. */
async function git<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { stderr } = error as { stderr?: unknown };
    const text = typeof stderr === "string" && stderr.trim() ? stderr.trim() : messageOf(error);
    throw new Failure("git.failed", `git could not ${what}: ${text}`);
  }
}

function isIn(file: string, target: string): boolean {
  return file === target || file.startsWith(`${target}/`);
}

function relative(root: string, file: string): string {
  return path.relative(root, file);
}
