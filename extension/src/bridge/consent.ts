/**
 * Decides whether a run may execute commands or edit files: by the settings or by asking the user.
 */
import { Failure } from "../common/failure";
import { KeyedLocks } from "../common/locks";
import {
  protectedPaths,
  summaryOf,
  type ConsentRequest,
  type RequestPart,
  type RequestPath,
} from "../consent/request";

export type Grant = "once" | "run" | "always" | undefined;

export interface RunConsentSettings {
  isTrusted: () => boolean;
  /** Whether the settings allow `what` without a question. */
  isAllowed: (what: string) => boolean;
  /** Asks the user; undefined if refused or dismissed. */
  ask: (request: ConsentRequest, signal: AbortSignal) => Promise<Grant>;
  /** Adds `what` to the settings. */
  allowAlways: (what: string) => Promise<void>;
}

export class RunConsent {
  /** Grants that last until the end of a run, by run. */
  private readonly granted = new Map<string, Set<string>>();
  /** Open questions: threads of a script with the same request share one question. */
  private readonly open = new Map<string, Promise<Grant>>();

  /** One question at a time per run and grant: its answer may also cover the next request. */
  private readonly turns = new KeyedLocks();

  constructor(private readonly settings: RunConsentSettings) {}

  /**
   * Fails with `bridge.not_allowed` unless the settings or the user allow the request. `what` names
   * the grant: a command or `edits`. The user reads `request`.
   */
  async admit(
    run: string,
    what: string,
    request: ConsentRequest,
    signal: AbortSignal,
  ): Promise<void> {
    const { isTrusted, isAllowed } = this.settings;
    if (!isTrusted())
      throw new Failure("bridge.not_allowed", "The user has not trusted this workspace");
    const isGranted = (): boolean =>
      !protectedPaths(request).length &&
      (isAllowed(what) || (this.granted.get(run)?.has(what) ?? false));
    if (isGranted()) return;
    const ask = async (): Promise<Grant> => {
      if (isGranted()) return "once";
      const grant = await this.settings.ask(request, signal);
      if (grant === "run") this.grant(run, what);
      if (grant === "always") await this.settings.allowAlways(what);
      return grant;
    };
    const key = `${run} ${JSON.stringify(request)}`;
    if (!(await this.asked(key, () => this.turns.hold(`${run} ${what}`, ask))))
      throw new Failure("bridge.not_allowed", `The user did not allow it: ${summaryOf(request)}`);
  }

  /** Removes the grants of a run that has ended. */
  forget(run: string): void {
    this.granted.delete(run);
  }

  /** Removes the grants of all runs. */
  forgetAll(): void {
    this.granted.clear();
  }

  private asked(key: string, ask: () => Promise<Grant>): Promise<Grant> {
    const open = this.open.get(key);
    if (open) return open;
    const asked = ask().finally(() => this.open.delete(key));
    this.open.set(key, asked);
    return asked;
  }

  private grant(run: string, what: string): void {
    this.granted.set(run, (this.granted.get(run) ?? new Set()).add(what));
  }
}

/** The consent request of a script in this window. */
export function scriptRequest(
  kind: string,
  name: string,
  parts: RequestPart[],
  paths: RequestPath[] = [],
): ConsentRequest {
  return { kind, requester: { name, hub: "" }, cwd: "", paths, parts };
}
