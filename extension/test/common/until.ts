import { vi } from "vitest";

/** Waits until `condition` returns a truthy value; vitest alone waits for one second. */
export function until<T>(condition: () => T): Promise<T> {
  return vi.waitUntil(condition, { timeout: 60_000 });
}
