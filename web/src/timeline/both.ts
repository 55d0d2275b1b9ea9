// What is done in a session by its sandbox and in its VS Code window, as one timeline.
import { computed } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Connection } from "../hub/connection";
import type { Session, Window } from "../hub/types";
import type { Row } from "./log";
import { useLog, type Live } from "./timeline";

/** Follow a session and, while it has one, its window. */
export function useSessionLog(
  connection: Connection,
  id: string,
  session: Session | undefined,
  window: Window | undefined,
): Live {
  const inside = useLog(connection, { kind: "session", id });
  const where = window?.connection_id;
  const shown = useLog(connection, where === undefined ? null : { kind: "window", id: where });
  // The hub has nothing to tell of what does not run, and says so; it may run later.
  const isReady = session?.state === "ready";
  useEffect(() => {
    if (isReady) connection.again({ kind: "session", id });
  }, [isReady, id]);
  const isHealthy = window?.status === "healthy";
  useEffect(() => {
    if (isHealthy && where !== undefined) connection.again({ kind: "window", id: where });
  }, [isHealthy, where]);

  return useMemo(() => {
    const version = computed(() => inside.version.value + shown.version.value);
    // Rows change in place, so what says that they did comes along.
    const rows = computed(() => ({
      version: version.value,
      all: merged(inside.log.rows, shown.log.rows),
    }));
    return {
      log: {
        get rows() {
          return rows.value.all;
        },
      },
      version,
      ended: inside.ended,
    };
  }, [inside, shown]);
}

/** Both in the order they began; where one is empty, the other as it is. */
export function merged(one: Row[], other: Row[]): Row[] {
  if (other.length === 0) return one;
  if (one.length === 0) return other;
  const all: Row[] = [];
  let at = 0;
  for (const row of one) {
    for (let next = other[at]; next && next.began < row.began; next = other[at]) {
      all.push(next);
      at += 1;
    }
    all.push(row);
  }
  return all.concat(other.slice(at));
}
