/** Work that only counts when it is the newest: what is begun later takes the place of it. */
import type { Disposable } from "../common/disposables";

export class LatestTasks implements Disposable {
  private readonly current = new Map<string, { abort: AbortController; timer: NodeJS.Timeout }>();

  /** Does `work` in a while, unless there is newer work for the key; its signal trips then. */
  begin(key: string, delayMs: number, work: (signal: AbortSignal) => Promise<void>): void {
    this.cancel(key);
    const abort = new AbortController();
    const done = (): void => {
      if (this.current.get(key)?.abort === abort) this.current.delete(key);
    };
    const timer = setTimeout(() => void work(abort.signal).finally(done), delayMs);
    this.current.set(key, { abort, timer });
  }

  cancel(key: string): void {
    const found = this.current.get(key);
    if (!found) return;
    this.current.delete(key);
    clearTimeout(found.timer);
    found.abort.abort();
  }

  dispose(): void {
    for (const key of [...this.current.keys()]) this.cancel(key);
  }
}
