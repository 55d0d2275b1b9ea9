/** Done once, answered once: takes actions from the hub, has them done, brings observations back. */
import type { Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import { abortable } from "../common/abortable";
import type { Log } from "../common/log";
import {
  observationFor,
  errorObservation,
  type SentObservation,
  type ObservationBody,
} from "../protocol";
import { parseAction, type ApprovalAnswered, type AgentAction } from "./messages";
import type { HubConnection, HubReceiver } from "./connection";
import type { Journal } from "./journal";
import { ProgressBatch } from "./progress";

/** What does actions. */
export interface ActionExecutor {
  /** May it be done? Rejects with a `Failure` when not. Asked in the order actions came. */
  admit(action: AgentAction, signal: AbortSignal): Promise<void>;
  /** Begins at once; what comes of it is an observation or a `Failure`. */
  perform(
    action: AgentAction,
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<ObservationBody>;
  approval(answered: ApprovalAnswered): void;
  /** The hub listens, perhaps another one than before: what it has to know is told again. */
  ready(): void;
  /** Ends whatever outlives actions: shells and what runs in them. */
  end(): void;
}

export type OnProgress = (shell: string, offset: number, data: Buffer) => void;

export interface ActionListener {
  began(action: AgentAction): void;
  ended(action: AgentAction, observation: SentObservation): void;
}

const MOST_UNWANTED = 1000;

interface RunningAction {
  controller: AbortController;
  /** The user was not asked, or has agreed. */
  isAdmitted: boolean;
  done: Promise<void>;
  /** Another host was asked how it ended and said that nobody knows. */
  isLost: boolean;
}

const READS = new Set([
  "read",
  "list",
  "glob",
  "grep",
  "diagnostics",
  "symbols",
  "selection",
  "interrupt",
]);

export class ActionRunner implements HubReceiver, Disposable {
  private readonly running = new Map<string, RunningAction>();
  /** Cancelled before they came; they are not begun any more. */
  private readonly unwanted = new Set<string>();
  private readonly turns = new KeyedLocks();
  private connection: HubConnection | undefined;
  private disposed = false;

  constructor(
    private readonly journal: Journal,
    private readonly worker: ActionExecutor,
    private readonly watcher: ActionListener,
    private readonly log: Log,
  ) {}

  attach(connection: HubConnection | undefined): void {
    this.connection = connection;
  }

  action(message: unknown): void {
    const action = parseAction(message);
    if (typeof action === "string") {
      this.log.warn(`the hub sent what is no action: ${action}`);
      return;
    }
    const known = this.journal.find(action.id, (action.age ?? 0) * 1000);
    if (known.state === "running") return;
    if (known.state === "new" && this.unwanted.delete(action.id)) this.skip(action);
    else if (known.state === "ended") this.send(known.observation);
    else if (known.state !== "new") this.send(observationFor(action.id, unknown(known.state)));
    else this.begin(action);
  }

  /** Done once the action does not run any more. False: it never came, and is not begun if it does. */
  async cancel(id: string): Promise<boolean> {
    const running = this.running.get(id);
    running?.controller.abort();
    await running?.done;
    if (running || this.journal.find(id).state !== "new") return true;
    this.unwanted.add(id);
    const oldest = this.unwanted.values().next().value;
    if (this.unwanted.size > MOST_UNWANTED && oldest) this.unwanted.delete(oldest);
    return false;
  }

  /** Cancels all that runs or waits. Done once nothing does; says how many there were. */
  async stop(): Promise<number> {
    const all = [...this.running.values()];
    for (const { controller } of all) controller.abort();
    await Promise.all(all.map(({ done }) => done));
    return all.length;
  }

  received(ids: string[]): void {
    for (const id of ids) this.journal.receive(id);
  }

  approval(answered: ApprovalAnswered): void {
    this.worker.approval(answered);
  }

  left(ids: readonly string[]): void {
    for (const id of ids) {
      const running = this.running.get(id);
      if (running && !running.isAdmitted) running.controller.abort();
    }
  }

  superseded(): void {
    for (const running of this.running.values()) running.isLost = true;
    void this.stop();
    this.worker.end();
  }

  ready(): void {
    this.worker.ready();
    for (const observation of this.journal.unacknowledged()) this.send(observation);
  }

  dispose(): void {
    this.disposed = true;
    void this.stop();
    this.journal.close();
  }

  private begin(action: AgentAction): void {
    const controller = new AbortController();
    this.journal.begin(action.id);
    this.watcher.began(action);
    const running = { controller, done: Promise.resolve(), isLost: false, isAdmitted: false };
    this.running.set(action.id, running);
    running.done = this.perform(action, running).then((observation) => {
      this.running.delete(action.id);
      if (!running.isLost) this.end(observation);
      this.watcher.ended(action, observation);
    });
  }

  private skip(action: AgentAction): void {
    this.journal.begin(action.id);
    this.end(
      observationFor(
        action.id,
        errorObservation("action.cancelled", "The action was cancelled before it came"),
      ),
    );
  }

  /** After the window was closed there is neither journal nor hub; the next host knows it as lost. */
  private end(observation: SentObservation): void {
    if (this.disposed) return;
    this.journal.end(observation);
    this.send(observation);
  }

  private async perform(action: AgentAction, running: RunningAction): Promise<SentObservation> {
    const { signal } = running.controller;
    const progress = new ProgressBatch(action.id, (message) => this.connection?.progress(message));
    try {
      await this.admitted(action, signal);
      running.isAdmitted = true;
      const onProgress: OnProgress = (...piece) => action.progress && progress.add(...piece);
      const what = await this.worker.perform(action, onProgress, signal);
      return this.fitting(observationFor(action.id, what));
    } catch (error) {
      return observationFor(action.id, this.failure(action, error));
    } finally {
      progress.flush();
    }
  }

  /**
   * Those of an agent that change something wait until its one before was admitted, so that order is
   * kept. Another agent's wait for nothing of it.
   */
  private admitted(action: AgentAction, signal: AbortSignal): Promise<void> {
    const ask = async (): Promise<void> => {
      ensureWanted(signal);
      await this.worker.admit(action, signal);
      ensureWanted(signal);
    };
    if (READS.has(action.action)) return ask();
    return abortable(this.turns.hold(action.agent_id ?? action.agent, ask), signal);
  }

  private failure(action: AgentAction, error: unknown): ObservationBody {
    if (error instanceof Failure) return errorObservation(error.code, error.message);
    this.log.error(`the ${action.action} action ${action.id} failed unexpectedly`, error);
    return errorObservation(
      "internal",
      `The ${action.action} action failed here: ${messageOf(error)}`,
    );
  }

  private fitting(observation: SentObservation): SentObservation {
    const limit = this.connection?.messageBytes;
    if (limit === undefined) return observation;
    const size = Buffer.byteLength(JSON.stringify(observation));
    if (size <= limit) return observation;
    const text =
      `The answer has ${size.toLocaleString("en")} bytes and the hub takes ` +
      `${limit.toLocaleString("en")}. Ask for less: fewer lines, or a smaller output_limit`;
    return observationFor(observation.cause, errorObservation("message.too_large", text));
  }

  /** Not connected is fine: `ready` sends it from the journal. */
  private send(observation: SentObservation): void {
    this.connection?.send(observation, () => this.journal.acknowledge(observation.cause));
  }
}

function ensureWanted(signal: AbortSignal): void {
  if (signal.aborted) throw new Failure("action.cancelled", "The action was cancelled");
}

const UNKNOWN = {
  lost: "The window was reloaded while it did this. It may have been done, in part or whole, and is not done again",
  done: "This action was done before. What was seen then is not kept any more, and it is not done again",
  expired:
    "This action was first sent so long ago that the window may have forgotten it. Whether it was done is not known, and it is not done now",
};

function unknown(state: keyof typeof UNKNOWN): ObservationBody {
  return errorObservation("outcome.unknown", UNKNOWN[state]);
}
