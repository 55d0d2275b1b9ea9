/** Ends commands early: control keys, and signals that escalate from SIGINT to SIGKILL. */
import type { BashProcess } from "./bash";
import type { Execution } from "./execution";
import type { EndQuery } from "./idle";

/** Milliseconds between escalation steps for an abandoned command. */
const ESCALATION_MS = 1000;
/** Delays in milliseconds after which a key that may have been lost is pressed again. */
const RETRY_DELAYS_MS = [20, 20, 50, 100, 100, 200, 500, 500, 500];
/** Milliseconds after a key until bash is asked whether the command has ended. */
const IDLE_MS = 50;
/** Milliseconds between checks whether bash runs the command, while a signal waits for that. */
const BEGIN_POLL_MS = 2;

export class Interrupts {
  constructor(
    private readonly bash: () => BashProcess | undefined,
    private readonly endQuery: EndQuery,
  ) {}

  async press(execution: Execution, key: string): Promise<void> {
    await this.untilSignalCanArrive(execution);
    await this.pressUntilDelivered(execution, key, RETRY_DELAYS_MS);
  }

  /** Sends SIGKILL once bash runs the command. */
  async kill(execution: Execution): Promise<void> {
    await this.untilSignalCanArrive(execution);
    if (!execution.isOver) this.killForeground();
  }

  /** Ends a command that nobody waits for: Ctrl-C, then SIGTERM, then SIGKILL, then bash itself. */
  abandon(execution: Execution): void {
    if (execution.isOver) return;
    execution.isAbandoned = true;
    execution.wasSignalled = true;
    const steps = [
      () => void this.pressUntilDelivered(execution, "C-c", RETRY_DELAYS_MS),
      () => void this.bash()?.signalForeground("SIGTERM"),
      () => this.killForeground(),
      () => this.bash()?.kill(),
    ];
    const step = (number: number): void => {
      if (execution.isOver || !this.bash()) return;
      steps[number]?.();
      if (number + 1 < steps.length) execution.callLater(ESCALATION_MS, () => step(number + 1));
    };
    if (execution.hasBegun) return step(0);
    execution.whenBegun = () => step(0); // a signal now would hit bash while it still reads the line
    this.pollForBegin(execution);
  }

  /**
   * While bash starts a program, a signal can be lost: it may reach only bash, which then waits for
   * the program, or the child before its exec or after its end. In these cases the key is pressed
   * again. A signal that reached a program is never repeated: a second signal may mean something
   * else to the program.
   */
  private async pressUntilDelivered(
    execution: Execution,
    key: string,
    retryDelays: number[],
  ): Promise<void> {
    const bash = this.bash();
    if (execution.isOver || !bash) return;
    const isWanted = (): boolean =>
      // If bash is at its prompt and answers a question, a signal would split the question.
      !execution.isOver && !(execution.wasAsked && bash.foregroundGroup() === bash.pid);
    const signalledGroup = await bash.press(key, isWanted);
    if (signalledGroup !== undefined) this.pressLater(execution, key, signalledGroup, retryDelays);
    execution.callLater(IDLE_MS, () => this.endQuery.query(execution));
  }

  private pressLater(
    execution: Execution,
    key: string,
    signalledGroup: number,
    [delay, ...others]: number[],
  ): void {
    if (delay === undefined) return;
    execution.callLater(delay, () => {
      const bash = this.bash();
      if (!bash) return;
      if ([bash.pid, signalledGroup].includes(bash.foregroundGroup()))
        this.pressLater(execution, key, signalledGroup, others);
      else void this.pressUntilDelivered(execution, key, others);
    });
  }

  private killForeground(): void {
    const bash = this.bash();
    if (!bash) return;
    // A builtin runs: only bash itself can be killed.
    if (bash.foregroundGroup() === bash.pid || !bash.signalForeground("SIGKILL")) bash.kill();
  }

  /**
   * Waits until bash runs the command. If a signal arrives while bash reads the line, either the
   * line or the signal is lost.
   */
  private async untilSignalCanArrive(execution: Execution): Promise<void> {
    await execution.sent;
    this.pollForBegin(execution);
    await execution.begun;
    execution.wasSignalled = true;
  }

  /** Bash sends no start event, so poll; this is rarely needed. */
  private pollForBegin(execution: Execution): void {
    const bash = this.bash();
    if (execution.hasBegun || execution.isOver || !bash) return;
    if (!bash.isListening() || execution.age() * 1000 > ESCALATION_MS) execution.begin();
    else execution.callLater(BEGIN_POLL_MS, () => this.pollForBegin(execution));
  }
}
