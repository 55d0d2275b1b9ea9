import { Failure } from "./failure";

/** The result of `work`, or `action.cancelled` as soon as the signal trips. What was begun goes on. */
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
    work.catch(() => undefined); // nobody waits for it after the signal tripped
    signal.removeEventListener("abort", stop);
  }
}
