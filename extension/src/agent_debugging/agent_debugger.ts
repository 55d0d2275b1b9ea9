/**
 * The debugger for agents: starts programs with any debug adapter of VS Code, lets them run, and
 * answers where they stop. A session that an agent starts is its own; the user may always take
 * over.
 */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { Failure, messageOf } from "../common/failure";
import type { Log } from "../common/log";
import type { AgentAction } from "../hub/messages";
import type { LanguageDocuments } from "../language/language_documents";
import { observe, type ArgsOf, type ObservationBody } from "../protocol";
import type { AgentBreakpoints } from "./agent_breakpoints";
import type { DapMessage, ThreadStop } from "./debug_run";
import { DebuggedProgram, noSession } from "./debugged_program";
import {
  configurationOf,
  ensureTasksExist,
  type LaunchConfiguration,
} from "./launch_configurations";
import {
  frameAt,
  framesOf,
  NO_PLACE,
  partsOfValue,
  placeOf,
  scopesOf,
  threadsOf,
  type Place,
} from "./program_snapshot";
import { shortValue, snapshotText, takeoverNote, variableLine } from "./snapshot_text";

/** The agent of an action, and how long the action may wait. */
export interface DebugCall {
  agent: string;
  /** When to answer that the program is still running, by the clock of `performance.now()`. */
  until: number;
  signal: AbortSignal;
}

type Answer = ObservationBody<"debug_state">;
type Value = ObservationBody<"debug_evaluate">;
type Request = "continue" | "next" | "stepIn" | "stepOut" | "pause";

/** Commands of VS Code, so that its views show that the program runs. */
const COMMANDS: Readonly<Record<Request, string>> = {
  continue: "workbench.action.debug.continue",
  next: "workbench.action.debug.stepOver",
  stepIn: "workbench.action.debug.stepInto",
  stepOut: "workbench.action.debug.stepOut",
  pause: "workbench.action.debug.pause",
};
const STEPS = { over: "next", into: "stepIn", out: "stepOut" } as const;
const STILL_RUNNING = "debug_continue waits until it stops or ends, debug_pause stops it";
const STILL_STARTING =
  "VS Code is still starting it: it runs a task first, or asks the user something. debug_continue waits";
const SAME_VALUE =
  "The variable had this value before. If you wanted another one, the debugger could not evaluate it";
/** Maximum characters of a value in an answer. */
const MAX_RESULT_CHARS = 16_000;

export class AgentDebugger implements Disposable {
  private readonly owned = new Disposables();
  /** The last program of each agent. */
  private readonly programs = new Map<string, DebuggedProgram>();

  constructor(
    private readonly breakpoints: AgentBreakpoints,
    private readonly documents: LanguageDocuments,
    /** Runs `work`, and records what VS Code starts in the meantime as started by an agent. */
    private readonly recordDuring: <T>(work: () => Promise<T>) => Promise<T>,
    private readonly log: Log,
  ) {
    this.owned.add(
      vscode.debug.registerDebugAdapterTrackerFactory("*", {
        createDebugAdapterTracker: (session) => this.tracker(session),
      }),
    );
    this.owned.add(
      vscode.debug.onDidTerminateDebugSession(({ id }) => {
        for (const program of this.programs.values())
          if (program.sessions.delete(id)) program.run.sessionEnded(id);
      }),
    );
  }

  dispose(): void {
    this.owned.dispose();
  }

  /** Ends all programs of agents. */
  endAll(): void {
    for (const program of this.programs.values())
      program.end().catch((error: unknown) => this.log.warn(messageOf(error)));
  }

  /** What a `debug_start` starts, or a `debug_stop` starts again. Undefined for other actions. */
  launchOf({ action, args }: AgentAction, agent: string): LaunchConfiguration | undefined {
    if (action === "debug_start") return configurationOf(args);
    return action === "debug_stop" && args.restart ? this.programs.get(agent)?.launch : undefined;
  }

  async setBreakpoints(
    args: ArgsOf<"set_breakpoints">,
    cwd: string,
    agent: string,
  ): Promise<ObservationBody<"breakpoints">> {
    const program = this.programs.get(agent);
    const isLive = program !== undefined && !program.hasEnded;
    const known = program?.exceptionFilters ?? new Set();
    const unknown = (args.exceptions ?? []).filter((each) => known.size && !known.has(each));
    if (isLive && unknown.length)
      throw new Failure(
        "debug.failed",
        `The debugger has no filter '${unknown.join("', '")}' for exceptions. It has: ${[...known].join(", ")}`,
      );
    const answer = await this.breakpoints.set(args, cwd, agent);
    if (isLive && args.exceptions)
      for (const session of program.sessions.values()) this.filterExceptions(program, session);
    return answer;
  }

  async start(args: ArgsOf<"debug_start">, call: DebugCall): Promise<Answer> {
    const launch = configurationOf(args);
    const program = this.programs.get(call.agent);
    if (program && !program.hasEnded)
      throw new Failure(
        "debug.already",
        `You debug '${program.launch.name}' already. debug_stop ends it or, with restart, starts it again`,
      );
    await ensureTasksExist(launch);
    return this.launch(launch, call);
  }

  async continue(args: ArgsOf<"debug_continue">, call: DebugCall): Promise<Answer> {
    const program = this.programOf(call.agent);
    if (program.run.stop) await this.move(program, await stopOf(program, args.thread), "continue");
    return this.nextStop(program, call);
  }

  async step(args: ArgsOf<"debug_step">, call: DebugCall): Promise<Answer> {
    const program = this.programOf(call.agent);
    await this.move(program, await stopOf(program, args.thread), STEPS[args.step ?? "over"]);
    return this.nextStop(program, call);
  }

  async pause(args: ArgsOf<"debug_pause">, call: DebugCall): Promise<Answer> {
    const program = this.programOf(call.agent);
    if (program.run.stop) return this.nextStop(program, call);
    const session = [...program.sessions.keys()].at(-1) ?? "";
    const thread = args.thread ?? (await threadsOf(program, session))[0]?.id ?? 0;
    await this.move(program, { session, thread, reason: "", description: "" }, "pause");
    return this.nextStop(program, call);
  }

  async state(args: ArgsOf<"debug_state">, agent: string): Promise<Answer> {
    const program = this.programs.get(agent);
    if (!program) throw noSession();
    return this.answer(program, args.thread, args.frame ?? 0);
  }

  async evaluate(args: ArgsOf<"debug_evaluate">, agent: string): Promise<Value> {
    const program = this.programOf(agent);
    const { expression, frame = 0 } = args;
    const stop = await stopOf(program, args.thread);
    const { frames } = await framesOf(program, stop);
    const asked = { expression, frameId: frameAt(frames, frame).id, context: "repl" };
    const { result, type, variablesReference } = await program.request<{
      result: string;
      type?: string;
      variablesReference?: number;
    }>(stop.session, "evaluate", asked);
    return this.value(program, stop, { expression, result, type, variablesReference });
  }

  async setVariable(args: ArgsOf<"debug_set_variable">, agent: string): Promise<Value> {
    const program = this.programOf(agent);
    const { name, value, frame = 0 } = args;
    const stop = await stopOf(program, args.thread);
    const { frames } = await framesOf(program, stop);
    const names: string[] = [];
    for (const scope of await scopesOf(program, stop.session, frameAt(frames, frame).id)) {
      const { variablesReference } = scope;
      const { items } = await partsOfValue(program, stop.session, variablesReference);
      names.push(...items.map((each) => each.name));
      const before = items.find((each) => each.name === name);
      if (!before) continue;
      const set = await program.request<{
        value: string;
        type?: string;
        variablesReference?: number;
      }>(stop.session, "setVariable", { variablesReference, name, value });
      const seen = await this.value(program, stop, { ...set, expression: name, result: set.value });
      if (shortValue(set.value) !== before.value) return seen;
      // debugpy reports success with the old value if it cannot evaluate the new one.
      return { ...seen, note: [seen.note, SAME_VALUE].filter(Boolean).join("\n") };
    }
    throw new Failure(
      "debug.failed",
      `There is no variable '${name}' in this frame. There are: ${names.join(", ") || "none"}`,
    );
  }

  async stop(args: ArgsOf<"debug_stop">, call: DebugCall): Promise<Answer> {
    const program = this.programOf(call.agent);
    await program.end();
    await program.run.waitFor(() => program.hasEnded, call.until, call.signal);
    if (call.signal.aborted) throw new Failure("action.cancelled", "The action was cancelled");
    const isRestart = args.restart === true && program.hasEnded;
    return isRestart ? this.launch(program.launch, call) : this.answer(program);
  }

  private async launch(launch: LaunchConfiguration, call: DebugCall): Promise<Answer> {
    const program = new DebuggedProgram(call.agent, launch);
    this.programs.set(call.agent, program);
    const nameOrConfiguration = launch.isCompound ? launch.name : asConfiguration(launch);
    const started = this.recordDuring(async () =>
      vscode.debug.startDebugging(launch.folder, nameOrConfiguration),
    );
    void started
      .then((isStarted) => {
        if (!isStarted) program.run.fail("VS Code did not start it; its window may say why");
      })
      .catch((error: unknown) => program.run.fail(messageOf(error)))
      .finally(() => {
        program.isStarting = false;
        program.run.notify();
      });
    try {
      return await this.nextStop(program, call);
    } catch (error) {
      if (call.signal.aborted) await program.end();
      throw error;
    }
  }

  private tracker(session: vscode.DebugSession): vscode.DebugAdapterTracker | undefined {
    const program = this.ownerOf(session);
    if (!program) return undefined;
    const { run } = program;
    const { id } = session;
    program.sessions.set(id, session);
    run.sessionStarted(id);
    // The agent ended the program while VS Code was still starting it.
    if (run.isStopping) void vscode.debug.stopDebugging(session);
    return {
      onWillReceiveMessage: (message: DapMessage) => {
        run.sent(id, message);
        if (message.command === "setExceptionBreakpoints")
          this.filterExceptions(program, session, message.arguments?.["filters"]);
      },
      onDidSendMessage: (message: DapMessage) => {
        if (message.command === "initialize") noteFilters(program, message);
        run.received(id, message);
      },
    };
  }

  private ownerOf(session: vscode.DebugSession): DebuggedProgram | undefined {
    const parent = session.parentSession?.id;
    const programs = [...this.programs.values()];
    if (parent !== undefined) return programs.find(({ sessions }) => sessions.has(parent));
    return programs.find((each) => each.expects(session));
  }

  /** Sends the agent's filters after VS Code has sent those of the user (`present`). */
  private filterExceptions(
    { agent }: DebuggedProgram,
    session: vscode.DebugSession,
    present?: unknown,
  ): void {
    const filters = this.breakpoints.exceptionsOf(agent);
    if (!filters || JSON.stringify(filters) === JSON.stringify(present)) return;
    session
      .customRequest("setExceptionBreakpoints", { filters })
      .then(undefined, (error: unknown) =>
        this.log.warn(`debug session ${session.name}: ${messageOf(error)}`),
      );
  }

  private programOf(agent: string): DebuggedProgram {
    const program = this.programs.get(agent);
    if (program && !program.hasEnded) return program;
    throw noSession(program ? `'${program.launch.name}' has ended` : undefined);
  }

  private async move(program: DebuggedProgram, stop: ThreadStop, request: Request): Promise<void> {
    const { run } = program;
    const { session, thread } = stop;
    run.expect(session, request);
    const context = { sessionId: session, threadId: `thread:${session}:${thread}` };
    try {
      await vscode.commands.executeCommand(COMMANDS[request], "", context);
    } catch (error) {
      if (!run.isExpected(session, request)) throw new Failure("debug.failed", messageOf(error));
    }
    // VS Code does not know the thread, or has no such command.
    if (run.isExpected(session, request) && !program.hasEnded)
      await program.request(session, request, { threadId: thread });
  }

  private async nextStop(program: DebuggedProgram, call: DebugCall): Promise<Answer> {
    const { run } = program;
    const isDone = (): boolean => run.stop !== undefined || program.hasEnded;
    await run.waitFor(isDone, call.until, call.signal);
    if (call.signal.aborted) throw new Failure("action.cancelled", "The action was cancelled");
    if (run.failure)
      throw new Failure("debug.failed", `'${program.launch.name}' did not start: ${run.failure}`);
    return this.answer(program);
  }

  private async answer(
    program: DebuggedProgram,
    thread?: number | null,
    frame = 0,
  ): Promise<Answer> {
    const { run, launch } = program;
    const isAny = thread === null || thread === undefined;
    const stop = isAny ? run.stop : await stopOf(program, thread);
    const place = stop && (await this.placeAt(program, stop, frame));
    const state = place ? "stopped" : program.hasEnded ? "ended" : "running";
    const person = run.takePersonRequests();
    const { text: output, leftOut } = run.takeOutput();
    const snapshot = {
      ...(place ?? NO_PLACE),
      state,
      name: launch.name,
      reason: place ? stop.reason : "",
      description: place ? stop.description : "",
      exit_code: state === "ended" ? run.exitCode : null,
      output,
      truncated: (place?.truncated ?? false) || leftOut > 0,
      taken_over: person.length > 0,
    } as const;
    const note = [
      takeoverNote(person),
      ...(leftOut ? [`${leftOut} characters of output before these were left out`] : []),
      ...(state !== "running" ? [] : [program.sessions.size ? STILL_RUNNING : STILL_STARTING]),
    ].filter(Boolean);
    return {
      ...observe("debug_state", snapshotText(snapshot, frame), snapshot),
      ...(note.length ? { note: note.join("\n") } : {}),
    };
  }

  /** Undefined if the program runs again: the user may continue it at any time. */
  private async placeAt(
    program: DebuggedProgram,
    stop: ThreadStop,
    frame: number,
  ): Promise<Place | undefined> {
    try {
      return await placeOf(program, stop, frame, this.documents);
    } catch (error) {
      if (program.run.stopOf(stop.thread) !== stop) return undefined;
      throw error;
    }
  }

  private async value(
    program: DebuggedProgram,
    stop: ThreadStop,
    found: {
      expression: string;
      result: string;
      type?: string | undefined;
      variablesReference?: number | undefined;
    },
  ): Promise<Value> {
    const { expression, result, type = "", variablesReference = 0 } = found;
    const parts = variablesReference
      ? await partsOfValue(program, stop.session, variablesReference)
      : { items: [], more: false };
    const { text: output } = program.run.takeOutput();
    const value =
      result.length > MAX_RESULT_CHARS ? `${result.slice(0, MAX_RESULT_CHARS - 1)}…` : result;
    const content = [
      variableLine({ name: shortValue(expression), value, type }).trim(),
      ...parts.items.map(variableLine),
      ...(output ? ["Output since the last answer:", output.replace(/\n$/, "")] : []),
    ].join("\n");
    const truncated = parts.more || value !== result;
    const extras = { expression, value, type, children: parts.items, output, truncated };
    const note = takeoverNote(program.run.takePersonRequests());
    return { ...observe("debug_evaluate", content, extras), ...(note ? { note } : {}) };
  }
}

/** As `stopped` of the program, but also fails if there is no such thread. */
async function stopOf(program: DebuggedProgram, thread?: number | null): Promise<ThreadStop> {
  const { run } = program;
  if (thread === null || thread === undefined || !run.stop || run.stopOf(thread))
    return program.stopped(thread);
  const threads = await threadsOf(program, run.stop.session);
  if (threads.some(({ id }) => id === thread)) return program.stopped(thread);
  const known = threads.map(({ id, name }) => `${id} (${name})`).join(", ");
  throw new Failure("debug.failed", `There is no thread ${thread}. There are: ${known || "none"}`);
}

function asConfiguration({ name, configuration }: LaunchConfiguration): vscode.DebugConfiguration {
  return {
    ...configuration,
    name,
    type: String(configuration["type"]),
    request: String(configuration["request"]),
  };
}

function noteFilters({ exceptionFilters }: DebuggedProgram, { body = {} }: DapMessage): void {
  const filters = (body["exceptionBreakpointFilters"] ?? []) as { filter: string }[];
  for (const { filter } of filters) exceptionFilters.add(filter);
}
