/** What a run may do beyond asking and showing: by the settings, or because the user said so. */
import { Failure } from "../common/failure";

export type Grant = "once" | "run" | "always" | undefined;

export interface RunConsentSettings {
  isTrusted: () => boolean;
  /** Whether the settings allow it without a question. */
  isAllowed: (what: string) => boolean;
  /** Asks the user; nothing when it was refused or dismissed. */
  ask: (question: string, signal: AbortSignal) => Promise<Grant>;
  /** Writes it down in the settings. */
  allowAlways: (what: string) => Promise<void>;
}

export class RunConsent {
  /** By run: what the user allowed it until its end. */
  private readonly granted = new Map<string, Set<string>>();
  /** Questions that are open, so that fifty threads of a script ask once. */
  private readonly open = new Map<string, Promise<Grant>>();

  constructor(private readonly settings: RunConsentSettings) {}

  /** Fails with `bridge.not_allowed`. `what` is what is granted, `question` what the user reads. */
  async admit(run: string, what: string, question: string, signal: AbortSignal): Promise<void> {
    const { isTrusted, isAllowed } = this.settings;
    if (!isTrusted())
      throw new Failure("bridge.not_allowed", "The user has not trusted this workspace");
    if (isAllowed(what) || this.granted.get(run)?.has(what)) return;
    const grant = await this.asked(`${run} ${what}`, question, signal);
    if (!grant) throw new Failure("bridge.not_allowed", `The user did not allow it: ${question}`);
    if (grant === "run") this.grant(run, what);
    if (grant === "always") await this.settings.allowAlways(what);
  }

  /** The run has ended. */
  forget(run: string): void {
    this.granted.delete(run);
  }

  private asked(key: string, question: string, signal: AbortSignal): Promise<Grant> {
    const open = this.open.get(key);
    if (open) return open;
    const asked = this.settings.ask(question, signal).finally(() => this.open.delete(key));
    this.open.set(key, asked);
    return asked;
  }

  private grant(run: string, what: string): void {
    this.granted.set(run, (this.granted.get(run) ?? new Set()).add(what));
  }
}
