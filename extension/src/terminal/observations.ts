/** Composes the observations of a shell's commands. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { observe, type ArgsOf, type CmdMetadata, type ObservationBody } from "../protocol";
import type { Execution } from "./execution";
import type { DiskLog } from "./disk_log";
import { PROMPT } from "./marks";
import * as notes from "./notes";
import type { ShellPremise } from "./premise";

/** Milliseconds for which the path of the Python interpreter is cached. */
const PYTHON_CACHE_MS = 1000;

/** A `run` action with its timeout, and what must be true of the shell when it starts. `env` are
 * further variables of a static command. */
export type RunCommand = ArgsOf<"run"> & {
  timeout?: number | undefined;
  premise?: ShellPremise | undefined;
  env?: Readonly<Record<string, string>>;
};

type State = "done" | "running" | "refused" | "idle";

interface ObservationParts {
  cwd: string;
  state: State;
  exitCode?: number;
  timedOut?: "" | "soft" | "hard";
  prefix?: string;
  suffix?: string;
}

/** Composes observations of one shell. Each observation takes the output collected so far. */
export class ShellObservations {
  private python = { path: "", since: -Infinity, found: null as string | null };
  private readonly username = os.userInfo().username;
  private readonly hostname = os.hostname();

  constructor(
    private readonly shell: string,
    private readonly log: DiskLog,
    private readonly softSeconds: number,
  ) {}

  done(command: RunCommand, execution: Execution, cwd: string, key = ""): ObservationBody<"run"> {
    return this.compose(command, execution, {
      cwd,
      state: "done",
      exitCode: execution.status,
      prefix: execution.leftByPrevious,
      suffix: endNote(execution, cwd, key),
    });
  }

  running(
    command: RunCommand,
    execution: Execution,
    reason: "soft" | "hard",
    cwd: string,
  ): ObservationBody<"run"> {
    const soft = reason === "soft" || command.timeout === undefined;
    return this.compose(command, execution, {
      cwd,
      state: "running",
      timedOut: reason,
      prefix: execution.answerCount > 1 ? notes.PREVIOUS : execution.leftByPrevious,
      suffix: soft ? notes.noNewOutput(this.softSeconds) : notes.timedOut(command.timeout ?? 0),
    });
  }

  refused(command: RunCommand, execution: Execution, cwd: string): ObservationBody<"run"> {
    return this.compose(command, execution.isWaitedFor ? undefined : execution, {
      cwd,
      state: "refused",
      prefix: notes.PREVIOUS,
      suffix: notes.refused(command.command),
    });
  }

  forAnother(command: RunCommand, cwd: string): ObservationBody<"run"> {
    return this.compose(command, undefined, { cwd, state: "running", suffix: notes.OTHER_READER });
  }

  idle(command: RunCommand, text: string, cwd: string): ObservationBody<"run"> {
    return { ...this.compose(command, undefined, { cwd, state: "idle" }), content: text };
  }

  private compose(
    command: RunCommand,
    execution: Execution | undefined,
    parts: ObservationParts,
  ): ObservationBody<"run"> {
    let content = "";
    let [totalBytes, leftOutBytes, start, end] = [0, 0, this.log.endOffset, this.log.endOffset];
    let background = "";
    if (execution) {
      const taken = execution.output.take(parts.state === "done");
      ({ totalBytes, leftOutBytes } = taken);
      content = taken.head;
      start = execution.logStart;
      end = execution.logStart = start + totalBytes;
      if (leftOutBytes)
        content += notes.leftOut(leftOutBytes, this.log.path, start, end) + taken.tail;
      if (execution.isStatusUnknown) content = content.replaceAll(PROMPT.toString(), "");
      background = execution.background;
      execution.background = "";
    }
    const metadata: CmdMetadata = {
      exit_code: parts.exitCode ?? -1,
      pid: execution?.backgroundPid ?? -1,
      username: this.username,
      hostname: this.hostname,
      working_dir: parts.cwd,
      py_interpreter_path: this.interpreter(execution?.path ?? ""),
      prefix: parts.prefix ?? "",
      suffix: parts.suffix ?? "",
      shell: this.shell,
      state: parts.state,
      timed_out: parts.timedOut ?? "",
      new_shell: execution?.isInNewShell ?? false,
      shell_ended: execution?.hasEndedShell ?? false,
      background,
      output_bytes: totalBytes,
      left_out_bytes: leftOutBytes,
      log_start: start,
      log_end: end,
      log_path: this.log.path,
      duration: execution?.age() ?? 0,
    };
    const extras = { command: command.command, metadata, hidden: command.hidden ?? false };
    return observe("run", content, extras, metadata.exit_code === 0);
  }

  /** The `python` on the shell's PATH; while a command runs, on the last known PATH. */
  private interpreter(given: string): string | null {
    const now = performance.now();
    const searchPath = given || this.python.path || "/usr/local/bin:/usr/bin:/bin";
    if (searchPath !== this.python.path || now - this.python.since > PYTHON_CACHE_MS)
      this.python = {
        path: searchPath,
        since: now,
        found: which("python", searchPath) ?? which("python3", searchPath),
      };
    return this.python.found;
  }
}

export function which(program: string, searched: string): string | null {
  for (const directory of searched.split(":")) {
    const file = path.join(directory || ".", program);
    try {
      fs.accessSync(file, fs.constants.X_OK);
      if (fs.statSync(file).isFile()) return file;
    } catch {
      continue;
    }
  }
  return null;
}

function endNote(execution: Execution, cwd: string, key: string): string {
  const typed = execution.userTyped ? notes.USER_TYPED : "";
  if (execution.hasReplacedShell) return notes.shellReplaced(cwd) + typed;
  if (execution.isStatusUnknown) return notes.statusUnknown() + typed;
  let suffix = notes.completed(execution.status, key);
  if (execution.hasEndedShell) suffix += notes.shellEnded(execution.status, cwd);
  if (execution.isInNewShell) suffix += notes.NEW_SHELL;
  return suffix + typed;
}
