/** Records when agents' commands ran. A file's modification time then shows who changed it. */

/** Milliseconds by which the clock of a file system may be coarser than ours. */
const BEFORE_MS = 50;
/** Milliseconds after the answer in which writes are still taken for the command's. */
const AFTER_MS = 1000;
const MAX_COMMANDS = 200;

/** Kinds of actions that may change any file. Edits and writes report their own changes. */
export const CHANGES_FILES: ReadonlySet<string> = new Set([
  "run",
  "run_ipython",
  "rm",
  "rmdir",
  "debug_start",
  "debug_continue",
  "debug_step",
  "debug_evaluate",
  "list_tests",
  "run_tests",
  "run_cells",
  "run_task",
  "git_commit",
]);

interface CommandInterval {
  id: string;
  agent: string;
  /** The shell in which the command keeps running after its answer. */
  shell?: string;
  start: number;
  end: number;
}

export class AgentCommands {
  private intervals: CommandInterval[] = [];

  constructor(private readonly now: () => number = Date.now) {}

  began(id: string, agent: string): void {
    this.intervals.push({ id, agent, start: this.now(), end: Infinity });
    this.intervals = this.intervals.slice(-MAX_COMMANDS);
  }

  /**
   * `state` is that of the observation; a program with the state `running` keeps running in
   * `shell`.
   */
  ended(id: string, shell = "", state = "done"): void {
    const ended = this.intervals.find((each) => each.id === id);
    if (!ended) return;
    ended.end = this.now();
    if (state === "refused") return; // an earlier command keeps running in this shell
    for (const each of this.intervals)
      if (each.agent === ended.agent && each.shell === shell) {
        each.end = this.now();
        delete each.shell;
      }
    if (state === "running") Object.assign(ended, { end: Infinity, shell });
  }

  /** The agent whose command ran at this time. Of several commands, the last to begin decides. */
  agentAt(time: number): string | undefined {
    return this.intervals.findLast(
      ({ start, end }) => start - BEFORE_MS <= time && time <= end + AFTER_MS,
    )?.agent;
  }
}
