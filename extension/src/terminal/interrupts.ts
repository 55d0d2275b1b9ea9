/** Ends commands early: control keys, and signals that escalate from SIGINT to SIGKILL. */
import type { BashProcess } from "./bash";
import type { Execution } from "./execution";
import type { IdleBash } from "./idle";

/** Milliseconds between escalation steps for an abandoned command. */
const PATIENCE = 1000;
/** Milliseconds after which a key that may have been lost is pressed again. */
const AGAIN = [20, 20, 50, 100, 100, 200, 500, 500, 500];
const IDLE_MS = 50;
/** Milliseconds between checks whether bash runs the command, when a signal waits for that. */
const GLANCE = 2;

export class Interrupts {
  constructor(
    private readonly bash: () => BashProcess | undefined,
    private readonly idle: IdleBash,
  ) {}

  async press(execution: Execution, key: string): Promise<void> {
    await this.canBeSignalled(execution);
    await this.pressUntilFelt(execution, key, AGAIN);
  }

  /** Kills without asking the program. */
  async kill(execution: Execution): Promise<void> {
    await this.canBeSignalled(execution);
    if (!execution.isOver) this.killForeground();
  }

  /** Nobody waits any more: ends the command, politely first. */
  abandon(execution: Execution): void {
    if (execution.isOver) return;
    execution.abandoned = true;
    execution.wasSignalled = true;
    const steps = [
      () => void this.pressUntilFelt(execution, "C-c", AGAIN),
      () => void this.bash()?.signal("SIGTERM"),
      () => this.killForeground(),
      () => this.bash()?.kill(),
    ];
    const step = (number: number): void => {
      if (execution.isOver || !this.bash()) return;
      steps[number]?.();
      if (number + 1 < steps.length) execution.later(PATIENCE, () => step(number + 1));
    };
    if (execution.isBegun) return step(0);
    execution.whenBegun = () => step(0); // a signal now would hit bash while it still reads the line
    this.lookForBegin(execution);
  }

  /**
   * While bash starts a program, a signal can be lost: it may reach only bash, which then waits for
   * the program, or the child before its exec or after its end. Then press again. A signal that
   * reached a program is never repeated, because a second one may mean something else.
   */
  private async pressUntilFelt(execution: Execution, key: string, again: number[]): Promise<void> {
    const bash = this.bash();
    if (execution.isOver || !bash) return;
    const isWanted = (): boolean =>
      // Bash is at its prompt and answers a question; a signal would split the question.
      !execution.isOver && !(execution.wasAsked && bash.foreground() === bash.pid);
    const spared = await bash.press(key, isWanted);
    if (spared !== undefined) this.pressLater(execution, key, spared, again);
    execution.later(IDLE_MS, () => this.idle.look(execution));
  }

  private pressLater(
    execution: Execution,
    key: string,
    spared: number,
    [delay, ...others]: number[],
  ): void {
    if (delay === undefined) return;
    execution.later(delay, () => {
      const bash = this.bash();
      if (!bash) return;
      if ([bash.pid, spared].includes(bash.foreground()))
        this.pressLater(execution, key, spared, others);
      else void this.pressUntilFelt(execution, key, others);
    });
  }

  private killForeground(): void {
    const bash = this.bash();
    if (!bash) return;
    // A builtin runs: only bash itself can be killed.
    if (bash.foreground() === bash.pid || !bash.signal("SIGKILL")) bash.kill();
  }

  /**
   * Waits until bash runs the command: a signal while it reads the line would lose one of the two.
   */
  private async canBeSignalled(execution: Execution): Promise<void> {
    await execution.told;
    this.lookForBegin(execution);
    await execution.begun;
    execution.wasSignalled = true;
  }

  /** Bash sends no start event, so poll; this is rarely needed. */
  private lookForBegin(execution: Execution): void {
    const bash = this.bash();
    if (execution.isBegun || execution.isOver || !bash) return;
    if (!bash.isListening() || execution.age() * 1000 > PATIENCE) execution.begin();
    else execution.later(GLANCE, () => this.lookForBegin(execution));
  }
}
