/** A program that an agent debugs: its debug sessions, and questions to their adapters. */
import * as vscode from "vscode";
import { within } from "../common/deadline";
import { Failure, messageOf } from "../common/failure";
import { DebugRun, type ThreadStop } from "./debug_run";
import type { LaunchConfiguration } from "./launch_configurations";

/** Milliseconds that an adapter may take to answer. */
const REQUEST_MS = 20_000;

export class DebuggedProgram {
  readonly run = new DebugRun();
  /** VS Code is starting the sessions of the program. */
  isStarting = true;
  /** Sessions in the order in which they started: child sessions after their parents. */
  readonly sessions = new Map<string, vscode.DebugSession>();
  /** Names of the filters for exceptions that the adapters have. */
  readonly exceptionFilters = new Set<string>();

  constructor(
    readonly agent: string,
    readonly launch: LaunchConfiguration,
  ) {}

  get hasEnded(): boolean {
    return this.run.hasEnded && (!this.isStarting || this.run.failure !== "");
  }

  /** Whether a new session without a parent is a session that we are starting. */
  expects({ configuration }: vscode.DebugSession): boolean {
    if (!this.isStarting) return false;
    const { name, isCompound, configuration: given } = this.launch;
    if (!isCompound) return configuration.name === name;
    const parts = (given["configurations"] ?? []) as (string | { name: string })[];
    return parts.some(
      (each) => (typeof each === "string" ? each : each.name) === configuration.name,
    );
  }

  async request<T>(session: string, command: string, args: object): Promise<T> {
    const asked = this.sessions.get(session);
    if (!asked) throw new Failure("debug.no_session", `'${this.launch.name}' has ended`);
    try {
      const late = (): Error => new Error(`the debugger did not answer '${command}' in time`);
      return (await within(
        Promise.resolve(asked.customRequest(command, args)),
        REQUEST_MS,
        late,
      )) as T;
    } catch (error) {
      throw new Failure("debug.failed", messageOf(error));
    }
  }

  /** The stop of the thread; without a thread, the last stop. Fails if the program runs. */
  stopped(thread: number | null | undefined): ThreadStop {
    const { run } = this;
    if (this.hasEnded) throw noSession(`'${this.launch.name}' has ended`);
    const stop = thread === null || thread === undefined ? run.stop : run.stopOf(thread);
    if (stop) return stop;
    const which = run.stop ? `Thread ${thread} of '${this.launch.name}'` : `'${this.launch.name}'`;
    throw new Failure(
      "debug.running",
      `${which} is running. debug_continue waits until it stops, debug_pause stops it`,
    );
  }

  /** Ends all sessions, also one that VS Code is still starting. */
  async end(): Promise<void> {
    this.run.isStopping = true;
    if (!this.sessions.size) this.run.fail("it was ended before it had started");
    const roots = [...this.sessions.values()].filter(({ parentSession }) => !parentSession);
    await Promise.all(roots.map((each) => vscode.debug.stopDebugging(each)));
  }
}

export function noSession(why = "You debug no program in this window"): Failure {
  return new Failure("debug.no_session", `${why}; debug_start starts one`);
}
