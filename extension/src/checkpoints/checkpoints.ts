/** Records a checkpoint around each action that may change files, and restores checkpoints. */
import { abortable } from "../common/abortable";
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { observe, type ArgsOf, type ExtrasOf, type ObservationBody } from "../protocol";
import { savesDocuments, type FileChangeScope } from "./changing_actions";
import type { CheckpointWorker } from "./checkpoint_worker";

export interface CheckpointsSettings {
  /** Why nothing is recorded in this window; empty if checkpoints are possible and turned on. */
  whyOff: () => string;
  /** If false, no agent may act in this workspace, so nothing is prepared. */
  isTrusted: () => boolean;
  start: (
    onNotice: (text: string) => void,
    onEnd: (why: string) => void,
  ) => Promise<CheckpointWorker>;
  /** Tells the user, once, that there are no checkpoints. */
  onUnavailable: (why: string) => void;
  log: Log;
}

/** An action of an agent, as checkpoints see it. */
export interface RecordedAction {
  kind: string;
  agent: string;
  /** One line that describes the action. */
  title: string;
  scope: FileChangeScope;
  signal: AbortSignal;
}

interface WorkerResult<K extends CheckpointKind> {
  content: string;
  extras: ExtrasOf<K>;
}

export type CheckpointKind = "checkpoints" | "checkpoint" | "restore";

const ENDED =
  "The process that records checkpoints ended, and the next action starts it again. What an action " +
  "changed while it ended is restored only if its path is named.";

/**
 * The worker starts with the first action that may change files. If it cannot start, actions run
 * without checkpoints, and a notice tells the user and agents. If the worker ends, the next action
 * starts a new worker.
 */
export class Checkpoints implements Disposable {
  private worker: Promise<CheckpointWorker> | undefined;
  private looking: Promise<void> | undefined;
  private readonly notices: string[] = [];
  /** How many of the notices each agent knows. */
  private readonly noticesSeen = new Map<string, number>();
  /** Actions that run now. */
  private readonly running = new Set<RecordedAction>();

  constructor(private readonly settings: CheckpointsSettings) {}

  /** Why this window records nothing, as far as it is known without starting the worker. */
  get whyOff(): string {
    return this.settings.whyOff();
  }

  /**
   * Looks at the workspace once, before the first action. Afterwards `limitNotes` are known, and
   * the first checkpoint has less to copy. Never rejects.
   */
  async prepare(): Promise<void> {
    if (this.whyOff || !this.settings.isTrusted()) return;
    this.looking ??= this.withoutFailing((worker) => worker.request("look")).then(() => undefined);
    await this.looking;
  }

  /**
   * Sentences for a user who admits an agent: what checkpoints leave out, or why there are none.
   */
  get limitNotes(): readonly string[] {
    return this.whyOff ? [`There are no checkpoints: ${this.whyOff}`] : this.notices;
  }

  /** Performs the action between `begin` and `end`, and adds the number of its checkpoint. */
  async around(
    action: RecordedAction,
    work: () => Promise<ObservationBody>,
  ): Promise<ObservationBody> {
    if (this.whyOff) return work();
    const begun = this.begin(action);
    let number: number | undefined;
    try {
      number = await abortable(begun, action.signal);
    } catch (error) {
      void begun.then((checkpoint) => this.end(checkpoint));
      throw error;
    }
    this.running.add(action);
    let checkpoint: number | undefined;
    let seen: ObservationBody;
    try {
      seen = await work();
    } finally {
      this.running.delete(action);
      checkpoint = await this.end(number);
    }
    const note = [seen.note, ...this.newNotices(action.agent)].filter(Boolean).join("\n");
    return {
      ...seen,
      ...(note ? { note } : {}),
      ...(checkpoint === undefined ? {} : { checkpoint }),
    };
  }

  /** The user saved a file. While a command of an agent runs, this change is still the user's. */
  saved(path: string): void {
    if (![...this.running].some(({ scope }) => scope.path === undefined)) return;
    // An action saves documents too, so it is unknown who saved the file.
    if ([...this.running].some(({ kind }) => savesDocuments(kind))) return;
    void this.withoutFailing((worker) => worker.request("saved", { paths: [path] }));
  }

  /** Executes one of the actions about checkpoints. */
  async execute<K extends CheckpointKind>(kind: K, args: ArgsOf<K>): Promise<ObservationBody<K>> {
    const { content, extras } = await this.ask(kind, args);
    const { checkpoint } = extras as { checkpoint?: unknown };
    const ownCheckpoint =
      kind === "restore" && typeof checkpoint === "number" ? { checkpoint } : {};
    return { ...observe(kind, content, extras), ...ownCheckpoint };
  }

  /** Fails with `capability.missing` or `machine.missing_tool` if there are no checkpoints. */
  async ask<K extends CheckpointKind>(kind: K, args: ArgsOf<K>): Promise<WorkerResult<K>> {
    if (this.whyOff)
      throw new Failure("capability.missing", `There are no checkpoints here: ${this.whyOff}`);
    const worker = await this.open();
    return worker.request<WorkerResult<K>>(kind, { args });
  }

  /** Lets the next action try again, after a setting has changed. */
  retry(): void {
    this.worker?.catch(() => (this.worker = undefined));
  }

  dispose(): void {
    void this.worker?.then(
      (worker) => worker.close(),
      () => undefined,
    );
  }

  private async begin({ agent, title, scope }: RecordedAction): Promise<number | undefined> {
    const { path, followsLinks } = scope;
    const where = path === undefined ? {} : { path, follows_links: followsLinks ?? true };
    const request = { agent, title, ...where };
    const ask = (worker: CheckpointWorker): Promise<number | null> =>
      worker.request("begin", request);
    return this.withoutFailing((worker) =>
      ask(worker).catch(async (error: unknown) => {
        if (worker.isAlive) throw error;
        return ask(await this.open()); // the action has changed nothing yet
      }),
    );
  }

  private async end(checkpoint: number | undefined): Promise<number | undefined> {
    if (checkpoint === undefined) return undefined;
    return this.withoutFailing((worker) => worker.request<number | null>("end", { checkpoint }));
  }

  /** If a checkpoint fails, its action does not fail. The failure becomes a notice. */
  private async withoutFailing<T>(
    work: (worker: CheckpointWorker) => Promise<T | null>,
  ): Promise<T | undefined> {
    try {
      return (await work(await this.open())) ?? undefined;
    } catch (error) {
      const isMissing = error instanceof Failure && error.code === "machine.missing_tool";
      const isNew = this.notify(
        isMissing ? `There are no checkpoints: ${error.message}` : messageOf(error),
      );
      if (isMissing && isNew) this.settings.onUnavailable(error.message);
      return undefined;
    }
  }

  private open(): Promise<CheckpointWorker> {
    this.worker ??= this.settings.start(
      (notice) => this.notify(notice),
      (why) => {
        this.worker = undefined;
        this.notify(`${ENDED}${why ? ` It printed: ${why}` : ""}`);
      },
    );
    return this.worker;
  }

  /** Adds a notice, unless it was given before. Returns whether the notice is new. */
  private notify(notice: string): boolean {
    if (this.notices.includes(notice)) return false;
    this.settings.log.warn(notice);
    this.notices.push(notice);
    return true;
  }

  private newNotices(agent: string): string[] {
    const found = this.notices.slice(this.noticesSeen.get(agent) ?? 0);
    this.noticesSeen.set(agent, this.notices.length);
    return found;
  }
}
