// The page's state as last sent by the hub. The connection writes it; views read it.
import { signal } from "@preact/signals";
import { HubConnection, type ConnectionState } from "./hub/connection";
import { HubApi } from "./hub/rest";
import type { SessionApp, Approval, Demo, Hello, Session, Usage, Window } from "./hub/types";

export interface Load {
  memory: number;
  /** CPU cores in use; null until measured twice. */
  cores: number | null;
}

export const connectionState = signal<ConnectionState>("connecting");
export const refusedReason = signal("");
export const me = signal<Pick<
  Hello,
  "name" | "owner" | "scope" | "version" | "spawners" | "egress"
> | null>(null);
export const sessions = signal<ReadonlyMap<string, Session>>(new Map());
export const windows = signal<readonly Window[]>([]);
export const approvals = signal<readonly Approval[]>([]);
/** How often the pending changes of a window changed; empty after a reconnect. */
export const reviewCounts = signal<ReadonlyMap<string, number>>(new Map());
export const demo = signal<Demo | null>(null);
export const apps = signal<ReadonlyMap<string, readonly SessionApp[]>>(new Map());
export const loads = signal<ReadonlyMap<string, Load>>(new Map());
/** The current time; updated every second while the page is visible. */
export const now = signal(Date.now());

export const key = document
  .querySelector<HTMLMetaElement>('meta[name="bascule-key"]')
  ?.content.trim();

/** The session id of a `/watch/ID` page; null on all other pages. */
export const watchedSessionId = /^\/watch\/([^/]+)$/.exec(location.pathname)?.[1] ?? null;

export const rest = new HubApi(key ?? "");
export const connection = new HubConnection(key ?? "", {
  stateChanged(state, reason) {
    connectionState.value = state;
    refusedReason.value = reason;
    if (state === "lost") void checkSignedOut();
  },
  hello(hello) {
    me.value = hello;
    sessions.value = new Map(hello.sessions.map((each) => [each.id, each]));
    windows.value = hello.windows;
    approvals.value = hello.approvals;
    demo.value = hello.demo;
    reviewCounts.value = new Map();
    for (const session of hello.sessions) void loadApps(session);
  },
  session(session) {
    sessions.value = new Map(sessions.value).set(session.id, session);
    void loadApps(session);
  },
  removed(id) {
    const left = new Map(sessions.value);
    left.delete(id);
    sessions.value = left;
  },
  windows(all) {
    windows.value = all;
  },
  approvals(all) {
    approvals.value = all;
  },
  review(window) {
    const count = reviewCounts.value.get(window) ?? 0;
    reviewCounts.value = new Map(reviewCounts.value).set(window, count + 1);
  },
  demo(now) {
    demo.value = now;
  },
});

/** The browser gives no reason for a refused WebSocket, so a REST call checks the sign-in. */
async function checkSignedOut(): Promise<void> {
  try {
    await rest.sessions();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "signed.out") {
      connectionState.value = "refused";
      refusedReason.value = "You are signed out.";
    }
  }
}

async function loadApps(session: Session): Promise<void> {
  if (watchedSessionId) return;
  if (session.state !== "ready") {
    if (apps.value.has(session.id)) {
      const left = new Map(apps.value);
      left.delete(session.id);
      apps.value = left;
    }
    return;
  }
  try {
    const found = await rest.apps(session.id);
    apps.value = new Map(apps.value).set(session.id, found);
  } catch {
    // The session may be stopping; the next state update says so.
  }
}

let lastUsages = new Map<string, { usage: Usage; at: number }>();

/** Measures CPU and memory of sessions. CPU needs two measurements. */
export async function measure(): Promise<void> {
  const used = await connection.usage();
  const at = performance.now();
  const measured = new Map<string, Load>();
  const next: typeof lastUsages = new Map();
  for (const [id, usage] of Object.entries(used)) {
    const previous = lastUsages.get(id);
    const seconds = previous ? (at - previous.at) / 1000 : 0;
    const cores =
      previous && seconds > 0.5
        ? Math.max(0, usage.cpu_seconds - previous.usage.cpu_seconds) / seconds
        : null;
    measured.set(id, { memory: usage.memory_bytes, cores });
    next.set(id, { usage, at });
  }
  lastUsages = next;
  loads.value = measured;
}
