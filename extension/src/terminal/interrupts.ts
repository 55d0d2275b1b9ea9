/** Ways to end a command before its time: keys that are felt, and ever firmer signals. */
import { within } from "../common/deadline";
import type { Bash } from "./bash";
import type { Execution } from "./execution";
import type { IdleBash } from "./idle";

/** Milliseconds between ever firmer ways to end an abandoned command. */
const PATIENCE = 1000;
/** Milliseconds after which a key that was perhaps not felt is pressed again. */
const AGAIN = [20, 20, 50, 100, 100, 200, 500, 500, 500];
const IDLE_MS = 50;

export class Interrupts {
  constructor(
    private readonly bash: () => Bash | undefined,
    private readonly idle: IdleBash,
  ) {}

  async press(execution: Execution, key: string): Promise<void> {
    await canBeSignalled(execution);
    await this.pressUntilFelt(execution, key, AGAIN);
  }

  /** At once, without asking the program. */
  async kill(execution: Execution): Promise<void> {
    await canBeSignalled(execution);
    if (!execution.isOver) this.killForeground();
  }

  /** Nobody waits any more: end the command, politely first. */
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
    if (execution.started) step(0);
    else execution.whenBegun = () => step(0); // now it would hit bash while it still reads the line
  }

  /**
   * While bash starts a program, a signal can reach bash alone, which then just waits for the
   * program, or the program's process before it is the program or after its end, and is lost: press
   * again. One that reached a program is never sent twice: it may mean more then.
   */
  private async pressUntilFelt(execution: Execution, key: string, again: number[]): Promise<void> {
    const bash = this.bash();
    if (execution.isOver || !bash) return;
    const isWanted = (): boolean =>
      // At its prompt and answering a question: a signal would tear the question apart.
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
    // A builtin runs: only bash itself can be ended.
    if (bash.foreground() === bash.pid || !bash.signal("SIGKILL")) bash.kill();
  }
}

/** A signal that hits bash while it still reads the line would be lost, or the line. */
async function canBeSignalled(execution: Execution): Promise<void> {
  await within(execution.begun, PATIENCE, () => new Error("late")).catch(() => undefined);
  execution.wasSignalled = true;
}
