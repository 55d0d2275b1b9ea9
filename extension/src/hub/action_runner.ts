/** Runs actions from the hub exactly once each and sends their observations back. */
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

/** Performs actions. */
export interface ActionExecutor {
  /**
   * Rejects with a `Failure` if the action is not allowed. Called in the order of arrival;
   * `arrived` is the time of `performance.now()` at which the action arrived.
   */
  admit(action: AgentAction, signal: AbortSignal, arrived: number): Promise<void>;
  /** Starts at once; resolves with an observation or rejects with a `Failure`. */
  perform(
    action: AgentAction,
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<ObservationBody>;
  approval(answered: ApprovalAnswered): void;
  /** Called after each registration. Sends open questions again, in case the hub was restarted. */
  ready(): void;
  /** Ends shells, kernels and their processes, which outlive actions. */
  end(): void;
}

export type OnProgress = (shell: string, offset: number, data: Buffer) => void;

export interface ActionListener {
  began(action: AgentAction): void;
  ended(action: AgentAction, observation: SentObservation): void;
}

const MAX_CANCELLED_EARLY = 1000;

interface RunningAction {
  controller: AbortController;
  /** A rule or the user has allowed the action. */
  isAdmitted: boolean;
  done: Promise<void>;
  /** Another host reported the outcome of the action as unknown, so its end is not reported. */
  isLost: boolean;
}

/** Kinds of actions that do not wait for earlier actions; see `admitted`. */
const READING_ACTIONS = new Set([
  "read",
  "list",
  "glob",
  "grep",
  "diagnostics",
  "symbols",
  "language",
  "debug_configurations",
  "debug_state",
  "test_results",
  "read_cells",
  "list_tasks",
  "list_running",
  "read_terminal",
  "git_status",
  "git_diff",
  "open_editors",
  "list_ports",
  "screenshot",
  "selection",
  "checkpoints",
  "checkpoint",
  "interrupt",
]);

export class ActionRunner implements HubReceiver, Disposable {
  private readonly running = new Map<string, RunningAction>();
  /** Ids of actions that were cancelled before they arrived. They are never started. */
  private readonly cancelledEarly = new Set<string>();
  private readonly turns = new KeyedLocks();
  private connection: HubConnection | undefined;
  private disposed = false;

  constructor(
    private readonly journal: Journal,
    private readonly executor: ActionExecutor,
    private readonly listener: ActionListener,
    private readonly log: Log,
  ) {}

  attach(connection: HubConnection | undefined): void {
    this.connection = connection;
  }

  action(message: unknown): void {
    const action = parseAction(message);
    if (typeof action === "string") {
      this.log.warn(`the hub sent an invalid action: ${action}`);
      return;
    }
    const known = this.journal.find(action.id, (action.age ?? 0) * 1000);
    if (known.state === "running") return;
    if (known.state === "new" && this.cancelledEarly.delete(action.id)) this.skip(action);
    else if (known.state === "ended") this.send(known.observation);
    else if (known.state !== "new") this.send(observationFor(action.id, unknown(known.state)));
    else this.begin(action);
  }

  /**
   * Resolves to true when the action has ended. Resolves to false if the action has not arrived; it
   * will then not be started.
   */
  async cancel(id: string): Promise<boolean> {
    const running = this.running.get(id);
    running?.controller.abort();
    await running?.done;
    if (running || this.journal.find(id).state !== "new") return true;
    this.cancelledEarly.add(id);
    const oldest = this.cancelledEarly.values().next().value;
    if (this.cancelledEarly.size > MAX_CANCELLED_EARLY && oldest)
      this.cancelledEarly.delete(oldest);
    return false;
  }

  /** Cancels all running and waiting actions, waits for them and returns their number. */
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
    this.executor.approval(answered);
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
    this.executor.end();
  }

  ready(): void {
    this.executor.ready();
    for (const observation of this.journal.unacknowledged()) this.send(observation);
  }

  dispose(): void {
    this.disposed = true;
    void this.stop();
    this.journal.close();
  }

  private begin(action: AgentAction): void {
    if (!this.journal.begin(action.id)) {
      this.send(observationFor(action.id, unknown("lost")));
      return;
    }
    const controller = new AbortController();
    this.listener.began(action);
    const running = { controller, done: Promise.resolve(), isLost: false, isAdmitted: false };
    this.running.set(action.id, running);
    running.done = this.perform(action, running).then((observation) => {
      this.running.delete(action.id);
      if (!running.isLost) this.end(observation);
      this.listener.ended(action, observation);
    });
  }

  private skip(action: AgentAction): void {
    this.journal.begin(action.id);
    this.end(
      observationFor(
        action.id,
        errorObservation("action.cancelled", "The action was cancelled before it arrived"),
      ),
    );
  }

  /** After disposal there is no journal or hub; the next host reports the action as lost. */
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
      const what = await this.executor.perform(action, onProgress, signal);
      return this.limited(observationFor(action.id, what));
    } catch (error) {
      return observationFor(action.id, this.failure(action, error));
    } finally {
      progress.flush();
    }
  }

  /**
   * Actions that change something wait until the same agent's earlier action was allowed or
   * refused, which keeps their order. Agents do not wait for each other.
   */
  private admitted(action: AgentAction, signal: AbortSignal): Promise<void> {
    const arrived = performance.now();
    const ask = async (): Promise<void> => {
      ensureWanted(signal);
      await this.executor.admit(action, signal, arrived);
      ensureWanted(signal);
    };
    if (READING_ACTIONS.has(action.action)) return ask();
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

  private limited(observation: SentObservation): SentObservation {
    const limit = this.connection?.messageBytes;
    if (limit === undefined) return observation;
    const size = Buffer.byteLength(JSON.stringify(observation));
    if (size <= limit) return observation;
    const text =
      `The answer has ${size.toLocaleString("en")} bytes and the hub takes ` +
      `${limit.toLocaleString("en")}. Ask for less: fewer lines, or a smaller output_limit`;
    const { note } = observation;
    const error = errorObservation("message.too_large", text);
    return observationFor(observation.cause, note === undefined ? error : { ...error, note });
  }

  /** Without a connection, `ready` sends the observation later from the journal. */
  private send(observation: SentObservation): void {
    this.connection?.send(observation, () => this.journal.acknowledge(observation.cause));
  }
}

function ensureWanted(signal: AbortSignal): void {
  if (signal.aborted) throw new Failure("action.cancelled", "The action was cancelled");
}

const UNKNOWN = {
  lost: "The window was reloaded while it did this. It may have been done, in part or whole, and is not done again",
  done: "This action ran before. Its observation is no longer stored, and it does not run again",
  expired:
    "This action was first sent so long ago that the window may have forgotten it. Whether it was done is not known, and it is not done now",
};

function unknown(state: keyof typeof UNKNOWN): ObservationBody {
  return errorObservation("outcome.unknown", UNKNOWN[state]);
}
