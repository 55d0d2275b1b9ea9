/**
 * Browser actions. A headless browser performs them; VS Code's simple browser also shows the opened
 * pages to the user.
 */
import * as vscode from "vscode";
import type { BrowserWorker, PageObservation } from "../browser/browser_worker";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";
import type { ArgsOf, ObservationBody } from "../protocol";

export class BrowserActions {
  private last = 0;

  constructor(
    private readonly worker: BrowserWorker,
    private readonly log: Log,
  ) {}

  /** Shows the page only after the worker has read it, so that a refused address is not shown. */
  async browse(
    args: ArgsOf<"browse">,
    timeout: number | undefined,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    const sight = await this.ask("browse", args, timeout, signal);
    const { url, error } = sight.extras;
    if (!error && typeof url === "string" && /^https?:/.test(url)) await this.show(url);
    return observed(sight);
  }

  async interact(
    args: ArgsOf<"browse_interactive">,
    timeout: number | undefined,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    return observed(await this.ask("browse_interactive", args, timeout, signal));
  }

  private ask(
    kind: string,
    args: unknown,
    timeout: number | undefined,
    signal: AbortSignal,
  ): Promise<PageObservation> {
    this.last += 1;
    return this.worker.ask(String(this.last), { kind, args, timeout }, signal);
  }

  /** Opens the page beside the active editor and keeps the user's focus. */
  private async show(url: string): Promise<void> {
    try {
      await vscode.commands.executeCommand("simpleBrowser.api.open", vscode.Uri.parse(url, true), {
        viewColumn: vscode.ViewColumn.Beside,
        preserveFocus: true,
      });
    } catch (error) {
      this.log.info(`the page cannot be shown in this window: ${messageOf(error)}`);
    }
  }
}

function observed({ kind, content, extras }: PageObservation): ObservationBody {
  return { observation: kind, content, extras };
}
