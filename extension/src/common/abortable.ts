import { Failure } from "./failure";

/**
 * Waits for `work`, or fails with `action.cancelled` when `signal` aborts. `work` itself continues.
 */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop!: () => void;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(new Failure("action.cancelled", "The action was cancelled"));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    work.catch(() => undefined); // its error is ignored after an abort
    signal.removeEventListener("abort", stop);
  }
}
