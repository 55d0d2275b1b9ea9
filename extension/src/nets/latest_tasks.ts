/** Debounced tasks by key. A newer task for a key cancels the older one. */
import type { Disposable } from "../common/disposables";

export class LatestTasks implements Disposable {
  private readonly current = new Map<string, { abort: AbortController; timer: NodeJS.Timeout }>();

  /** Runs `work` after a delay. Newer work for the same key cancels it and aborts its signal. */
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
