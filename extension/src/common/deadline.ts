/**
 * Waits for `promise` at most `ms` milliseconds, then fails with `expired()`. The work itself
 * continues.
 */
export async function within<T>(promise: Promise<T>, ms: number, expired: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(expired()), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
