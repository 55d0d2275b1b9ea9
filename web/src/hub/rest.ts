import { Failure } from "./failure";
import type {
  AuditEntry,
  Share,
  User,
  SessionApp,
  HealthCheck,
  Demo,
  Forks,
  HubError,
  HubRule,
  RuleInUse,
  Merged,
  Observation,
  Restored,
  ReviewHunks,
  ReviewList,
  ReviewTarget,
  TimelineSource,
  Session,
} from "./types";

const UNREACHABLE = "The hub does not answer. Is it running?";

/** Client of the hub's REST API. `key` proves that a request comes from this page. */
export class HubApi {
  constructor(private readonly key: string) {}

  async sessions(): Promise<Session[]> {
    return this.ask<Session[]>("GET", "/api/sessions");
  }

  async create(body: object): Promise<Session> {
    return this.ask<Session>("POST", "/api/sessions", body);
  }

  async rules(): Promise<HubRule[]> {
    return this.ask<HubRule[]>("GET", "/api/rules");
  }

  async rulesInUse(session: string): Promise<RuleInUse[]> {
    return this.ask<RuleInUse[]>("GET", `${sessionPath(session)}/rules`);
  }

  async act(session: string, verb: "pause" | "resume" | "stop"): Promise<void> {
    await this.ask("POST", `${sessionPath(session)}/${verb}`);
  }

  /** Deletes a session. A fork with changes that are not merged needs `force`. */
  async remove(session: string, force = false): Promise<void> {
    await this.ask("DELETE", sessionPath(session) + (force ? "?force=true" : ""));
  }

  async forks(session: string): Promise<Forks> {
    return this.ask<Forks>("GET", `${sessionPath(session)}/forks`);
  }

  async fork(session: string): Promise<void> {
    await this.ask("POST", `${sessionPath(session)}/forks`, {});
  }

  /** Merges the changes of a fork; with `isDryRun`, only reports what it would do. */
  async merge(fork: string, isDryRun: boolean): Promise<Merged> {
    return this.ask<Merged>("POST", `${sessionPath(fork)}/merge`, { dry_run: isDryRun });
  }

  async apps(session: string): Promise<SessionApp[]> {
    return this.ask<SessionApp[]>("GET", `${sessionPath(session)}/ports`);
  }

  async logs(session: string): Promise<string> {
    return (await this.ask<{ text: string }>("GET", `${sessionPath(session)}/logs`)).text;
  }

  async files(session: string, path: string): Promise<{ path: string; names: string[] }> {
    return this.ask("GET", `${sessionPath(session)}/files?path=${encodeURIComponent(path)}`);
  }

  /** A file's bytes; null if the file is larger than `maxBytes`. */
  async file(session: string, path: string, maxBytes: number): Promise<Blob | null> {
    const reply = await this.send(
      "GET",
      `${sessionPath(session)}/file?path=${encodeURIComponent(path)}`,
    );
    if (Number(reply.headers.get("content-length") ?? 0) > maxBytes) {
      await reply.body?.cancel();
      return null;
    }
    return reply.blob();
  }

  /**
   * Undoes what one action changed in a session; with `isDryRun`, only reports what it would do.
   */
  async restore(session: string, checkpoint: number, isDryRun: boolean): Promise<Restored> {
    const where = `${sessionPath(session)}/checkpoints/${checkpoint}/restore`;
    return this.ask<Restored>("POST", where, { dry_run: isDryRun });
  }

  /** Undoes what one action changed in a window. The user of the window is asked. */
  async restoreInWindow(window: string, checkpoint: number, isDryRun: boolean): Promise<Restored> {
    const args = { checkpoint, dry_run: isDryRun };
    const seen = await this.actInWindow(window, { action: "restore", args });
    if (seen.observation !== "restore") throw new Failure("error", seen.content);
    return seen.extras as unknown as Restored;
  }

  /** Performs an action in a window. Rejects if the action failed. */
  async actInWindow(window: string, action: object): Promise<Observation> {
    const event = { id: crypto.randomUUID(), source: "user", ...action };
    const where = `/api/vscode/instance/${encodeURIComponent(window)}/actions`;
    const seen = await this.ask<Observation>("POST", where, event);
    if (seen.observation === "error")
      throw new Failure(seen.extras.error_id ?? "error", seen.content);
    return seen;
  }

  /** The changes of agents in a window that nobody has reviewed yet. */
  async review(window: string): Promise<ReviewList> {
    return this.ask<ReviewList>("GET", reviewPath(window));
  }

  /** The changed lines of a file. Rejects if the file has another version now. */
  async hunks(window: string, { file, version }: ReviewTarget): Promise<ReviewHunks> {
    return this.ask<ReviewHunks>("GET", `${reviewPath(window)}/${file}?version=${version}`);
  }

  /** Keeps or undoes changes. Rejects, and changes nothing, if a file has another version now. */
  async answerReview(
    window: string,
    answer: "keep" | "undo",
    files: ReviewTarget[],
  ): Promise<void> {
    await this.ask("POST", reviewPath(window), { answer, files });
  }

  /** The trajectory of a session or window: one event per line of JSON. */
  async timeline({ kind, id }: TimelineSource): Promise<Blob> {
    const where = `/api/${kind}s/${encodeURIComponent(id)}/timeline.jsonl`;
    return (await this.send("GET", where)).blob();
  }

  async pair(): Promise<{ code: string; expires: string; link: string }> {
    return this.ask("POST", "/api/vscode/pair");
  }

  async users(): Promise<User[]> {
    return this.ask<User[]>("GET", "/api/users");
  }

  /** Changes a user. Tokens that permit more than the new role end. */
  async putUser({ name, ...user }: User): Promise<void> {
    const { role, issuer, subject, display_name, disabled, max_sessions, max_running } = user;
    const body = { role, issuer, subject, display_name, disabled, max_sessions, max_running };
    await this.ask("PUT", `/api/users/${encodeURIComponent(name)}`, body);
  }

  /** The newest entries of the audit log, of one user or of all. */
  async audit(user: string): Promise<AuditEntry[]> {
    const only = user ? `&user=${encodeURIComponent(user)}` : "";
    return this.ask<AuditEntry[]>("GET", `/api/audit?limit=200${only}`);
  }

  async shares(session: string): Promise<Share[]> {
    return this.ask<Share[]>("GET", `${sessionPath(session)}/shares`);
  }

  async share(session: string, user: string, access: Share["access"]): Promise<void> {
    await this.ask("PUT", `${sessionPath(session)}/shares/${encodeURIComponent(user)}`, { access });
  }

  async unshare(session: string, user: string): Promise<void> {
    await this.ask("DELETE", `${sessionPath(session)}/shares/${encodeURIComponent(user)}`);
  }

  async checks(): Promise<HealthCheck[]> {
    return this.ask<HealthCheck[]>("GET", "/api/checks");
  }

  async playDemo(): Promise<Demo> {
    return this.ask<Demo>("POST", "/api/demo");
  }

  private async ask<T>(method: string, path: string, body?: object): Promise<T> {
    return (await (await this.send(method, path, body)).json()) as T;
  }

  private async send(method: string, path: string, body?: object): Promise<Response> {
    const headers: Record<string, string> = { "X-Bascule-Page": this.key };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const init: RequestInit = { method, headers };
    if (body !== undefined) init.body = JSON.stringify(body);
    let reply: Response;
    try {
      reply = await fetch(path, init);
    } catch {
      throw new Failure("hub.unreachable", UNREACHABLE);
    }
    if (reply.ok) return reply;
    const error = (await reply.json().catch(() => ({}))) as Partial<HubError>;
    const failure = Failure.of(error, `The hub answered with HTTP ${reply.status}`);
    throw reply.status === 401 ? new Failure("signed.out", failure.message) : failure;
  }
}

function sessionPath(session: string): string {
  return `/api/sessions/${encodeURIComponent(session)}`;
}

function reviewPath(window: string): string {
  return `/api/windows/${encodeURIComponent(window)}/review`;
}
