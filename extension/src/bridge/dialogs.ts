/** Messages, input boxes, pickers and progress. If the user dismisses one, the answer is null. */
import * as vscode from "vscode";
import { Failure } from "../common/failure";
import { withoutLinks } from "../consent/visible_text";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import { isObject } from "./messages";
import { flag, invalid, objects, text, texts } from "./params";

const LEVELS = ["info", "warning", "error"] as const;

export const dialogs: RequestHandlers = {
  "vscode/showMessage": showMessage,
  "vscode/inputBox": inputBox,
  "vscode/quickPick": quickPick,
  "vscode/progress": progress,
};

async function showMessage({ params }: BridgeRequest): Promise<unknown> {
  const level = LEVELS.find((each) => each === text(params, "level", "info"));
  if (!level) throw invalid("level", `one of ${LEVELS.join(", ")}`);
  const buttons = texts(params, "buttons");
  const modal = flag(params, "modal");
  const shown = show(level, withoutLinks(text(params, "message")), { modal }, buttons);
  // Without buttons do not wait: a notification may stay open forever.
  if (!buttons.length && !modal) return { choice: null };
  return { choice: (await shown) ?? null };
}

async function inputBox({ params, signal }: BridgeRequest): Promise<unknown> {
  const expected = pattern(text(params, "pattern", ""));
  const options: vscode.InputBoxOptions = {
    prompt: withoutLinks(text(params, "prompt")),
    value: text(params, "value", ""),
    placeHolder: text(params, "placeholder", ""),
    password: flag(params, "password"),
    ignoreFocusOut: true,
    validateInput: (given) =>
      expected.test(given) ? undefined : `The value must match ${expected.source}`,
  };
  return cancellable(signal, async (token) => ({
    value: (await vscode.window.showInputBox(options, token)) ?? null,
  }));
}

async function quickPick({ params, signal }: BridgeRequest): Promise<unknown> {
  const items = objects(params, "items").map((item) => ({
    label: text(item, "label"),
    description: text(item, "description", ""),
    detail: text(item, "detail", ""),
  }));
  const options = {
    placeHolder: text(params, "placeholder", ""),
    title: text(params, "title", ""),
    ignoreFocusOut: true,
  };
  const many = flag(params, "many");
  return cancellable(signal, async (token) => {
    if (!many)
      return { value: (await vscode.window.showQuickPick(items, options, token))?.label ?? null };
    const picked = await vscode.window.showQuickPick(
      items,
      { ...options, canPickMany: true },
      token,
    );
    return { value: picked?.map(({ label }) => label) ?? null };
  });
}

/** Stays open until the script reports that it is done, or the user cancels. */
async function progress(request: BridgeRequest): Promise<unknown> {
  const { params, signal } = request;
  const options = {
    location: vscode.ProgressLocation.Notification,
    title: withoutLinks(text(params, "title")),
    cancellable: flag(params, "cancellable", true),
  };
  return vscode.window.withProgress(
    options,
    (bar, token) =>
      new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => resolve({}), { once: true });
        token.onCancellationRequested(() =>
          reject(new Failure("bridge.cancelled", `The user cancelled '${options.title}'`)),
        );
        request.onAdded((value) => {
          if (!isObject(value)) return;
          if (value["done"] === true) resolve({});
          else bar.report(step(value));
        });
      }),
  );
}

function step(value: Record<string, unknown>): { message?: string; increment?: number } {
  const { message, increment } = value;
  return {
    ...(typeof message === "string" && message ? { message: withoutLinks(message) } : {}),
    ...(typeof increment === "number" && increment > 0 ? { increment } : {}),
  };
}

function show(
  level: (typeof LEVELS)[number],
  message: string,
  options: vscode.MessageOptions,
  buttons: string[],
): Thenable<string | undefined> {
  const { window } = vscode;
  if (level === "error") return window.showErrorMessage(message, options, ...buttons);
  return level === "warning"
    ? window.showWarningMessage(message, options, ...buttons)
    : window.showInformationMessage(message, options, ...buttons);
}

function pattern(source: string): RegExp {
  try {
    return new RegExp(source ? `^(?:${source})$` : "", "u");
  } catch {
    throw invalid("pattern", "a regular expression");
  }
}

async function cancellable<T>(
  signal: AbortSignal,
  work: (token: vscode.CancellationToken) => Promise<T>,
): Promise<T> {
  const source = new vscode.CancellationTokenSource();
  const cancel = (): void => source.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return await work(source.token);
  } finally {
    signal.removeEventListener("abort", cancel);
    source.dispose();
  }
}
