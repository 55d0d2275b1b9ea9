/** Waits for language servers that are still starting. */
import * as vscode from "vscode";
import { abortable } from "../common/abortable";
import type { Disposable } from "../common/disposables";
import { Failure } from "../common/failure";
import { execute } from "./language_command";
import { isTypeScript, loadProject } from "./typescript_server";

/** Milliseconds to wait for the first result of a language whose server reports no readiness. */
const FIRST_RESULT_MS = 10_000;
/** Milliseconds after which a server that has just started must give the same result again. */
const SAME_RESULT_MS = 1500;
/** Milliseconds to wait for a server that has ended and may be started again. */
const RESTART_MS = 60_000;
/** Milliseconds between two attempts: no event tells when a server can answer. */
const PAUSE_MS = 200;
/** Shorter waits are not reported. */
const REPORTED_MS = 500;

/** Until when an action may wait. */
export interface WaitLimit {
  /** A time of `performance.now()`. */
  until: number;
  signal: AbortSignal;
}

export interface ServerAnswer<T> {
  found: T[];
  /** Seconds of waiting for a server that was still starting; 0 below `REPORTED_MS`. */
  waited: number;
  /** The wait ended before the server was ready; the answer may be incomplete. */
  isUnsure: boolean;
}

export class LanguageServers implements Disposable {
  /** Languages that gave a result, or whose wait is over. */
  private readonly answered = new Set<string>();
  /** For each language, a document of which its server knows symbols as long as it lives. */
  private readonly outlined = new Map<string, vscode.Uri>();
  /** TypeScript files whose project was loaded since they were opened. */
  private readonly loaded = new Set<string>();
  private readonly listening = vscode.workspace.onDidCloseTextDocument(({ uri }) =>
    this.loaded.delete(uri.toString()),
  );

  /**
   * Asks a question about a document when its language server is ready. With `isExact`, checks
   * again whether a server is ready that was ready before: it may have been restarted.
   */
  async ask<T>(
    document: vscode.TextDocument,
    question: () => Promise<readonly T[] | undefined>,
    waitLimit: WaitLimit,
    { isExact = false }: { isExact?: boolean } = {},
  ): Promise<ServerAnswer<T>> {
    const start = performance.now();
    const wasReady = this.wasReady(document);
    const work = async (): Promise<ServerAnswer<T>> => {
      const isReady = (wasReady && !isExact) || (await this.waitUntilReady(document, waitLimit));
      const waited = wasReady ? 0 : performance.now() - start;
      if (isReady === undefined)
        return this.firstResult(document.languageId, question, waitLimit, start);
      const found = await question();
      if (found?.length || isTypeScript(document) || (await this.isAlive(document)))
        return { ...answer(found, waited), isUnsure: !isReady };
      await this.waitUntilAlive(document, waitLimit);
      return this.firstResult(document.languageId, question, waitLimit, start);
    };
    const asked = work();
    asked.then(() => this.outline(document)).catch(() => undefined); // the caller gets the error
    return abortable(asked, waitLimit.signal);
  }

  /**
   * Waits until the server that knew the language answers. VS Code returns nothing while a server
   * that has ended is started again. Fails if it does not answer in time.
   */
  async waitUntilAlive(document: vscode.TextDocument, waitLimit: WaitLimit): Promise<void> {
    const until = Math.min(waitLimit.until, performance.now() + RESTART_MS);
    while (!(await this.isAlive(document)))
      if (!(await pause({ ...waitLimit, until }))) {
        // Next time the answer decides: the symbols may be gone because the document has changed.
        this.outlined.delete(document.languageId);
        throw new Failure(
          "language.server_failed",
          `The language server for ${document.languageId} has stopped answering, and was not started again in time. Ask again, or ask the user to reload the window`,
        );
      }
  }

  /** True if the language's server, which once knew symbols, still does; or if it never did. */
  private async isAlive({ languageId }: vscode.TextDocument): Promise<boolean> {
    const uri = this.outlined.get(languageId);
    if (uri === undefined) return true;
    try {
      return await hasSymbols(uri);
    } catch {
      this.outlined.delete(languageId); // the file does not exist any more
      return true;
    }
  }

  private async outline(document: vscode.TextDocument): Promise<void> {
    const { languageId, uri } = document;
    if (isTypeScript(document) || this.outlined.has(languageId)) return;
    if (await hasSymbols(uri)) this.outlined.set(languageId, uri);
  }

  dispose(): void {
    this.listening.dispose();
  }

  private wasReady({ languageId, uri }: vscode.TextDocument): boolean {
    return this.loaded.has(uri.toString()) || this.answered.has(languageId);
  }

  /** Whether the server is ready; undefined if only a result can tell. */
  private async waitUntilReady(
    document: vscode.TextDocument,
    waitLimit: WaitLimit,
  ): Promise<boolean | undefined> {
    const { languageId, uri } = document;
    const key = uri.toString();
    await untilDeadline(waitLimit.until, activate(languageId));
    if (!isTypeScript(document)) return this.answered.has(languageId) ? true : undefined;
    for (;;) {
      const state = await untilDeadline(waitLimit.until, loadProject(document));
      if (state === "absent") return this.answered.has(languageId) ? true : undefined;
      if (state === "loaded") {
        this.loaded.add(key);
        return true;
      }
      if (!(await pause(waitLimit))) return false;
    }
  }

  /**
   * Asks until there is a result, and until it stays the same: a server that is still looking for
   * files knows only a part of the result.
   */
  private async firstResult<T>(
    language: string,
    question: () => Promise<readonly T[] | undefined>,
    waitLimit: WaitLimit,
    start: number,
  ): Promise<ServerAnswer<T>> {
    const untilFound = Math.min(waitLimit.until, performance.now() + FIRST_RESULT_MS);
    for (let before = 0; ;) {
      const found = await question();
      const isFound = (found?.length ?? 0) > 0;
      const now = isFound ? JSON.stringify(found).length : 0; // servers may change the order
      const isSame = isFound && now === before;
      before = now;
      const limit = isFound ? waitLimit : { ...waitLimit, until: untilFound };
      if (!isSame && (await pause(limit, isFound ? SAME_RESULT_MS : PAUSE_MS))) continue;
      this.answered.add(language);
      return { ...answer(found, performance.now() - start), isUnsure: !isSame };
    }
  }
}

/** What an answer says about the wait; empty if there was none. */
export function waitNote({ waited, isUnsure }: ServerAnswer<unknown>): string {
  const seconds = `${waited.toFixed(1)} s`;
  if (isUnsure)
    return `After ${seconds} the language server had not reported that it is ready; the answer may be incomplete. Ask again`;
  return waited
    ? `The language server was still starting or loading; it was ready after ${seconds}`
    : "";
}

async function hasSymbols(uri: vscode.Uri): Promise<boolean> {
  const found = await execute<unknown[]>("vscode.executeDocumentSymbolProvider", uri);
  return (found?.length ?? 0) > 0;
}

function answer<T>(
  found: readonly T[] | undefined,
  waitedMs: number,
): { found: T[]; waited: number } {
  return {
    found: [...(found ?? [])],
    waited: waitedMs < REPORTED_MS ? 0 : Math.round(waitedMs / 100) / 10,
  };
}

/** Activates the extensions for a language. Opening a document only begins this. */
async function activate(language: string): Promise<void> {
  const inactive = vscode.extensions.all.filter(({ isActive, packageJSON }) => {
    const { activationEvents = [] } = packageJSON as { activationEvents?: string[] };
    return !isActive && activationEvents.includes(`onLanguage:${language}`);
  });
  // VS Code reports extensions that fail to start.
  await Promise.allSettled(inactive.map((each): Thenable<unknown> => each.activate()));
}

/** The result of `work`; undefined if there is none at the time `until`. */
async function untilDeadline<T>(until: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(0, until - performance.now()));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits a little. False if the time is over, or the action was cancelled. */
export async function pause(
  { until, signal }: WaitLimit,
  milliseconds = PAUSE_MS,
): Promise<boolean> {
  const remainingMs = until - performance.now();
  if (remainingMs <= 0 || signal.aborted) return false;
  await new Promise((resolve) => setTimeout(resolve, Math.min(remainingMs, milliseconds)));
  return !signal.aborted;
}
