import type { Log } from "../../src/common/log";

/** A log nobody reads. */
export const silent: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
