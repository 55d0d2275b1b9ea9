/** Shows a form in a tab and waits for the user's input. */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import { formPage } from "./form_page";
import { isObject } from "./messages";
import { object, text } from "./params";

export const forms: RequestHandlers = { "vscode/form": form };

/** The result has a null `value` if the user closes the tab or presses Cancel. */
async function form({ params, name, signal }: BridgeRequest): Promise<unknown> {
  const schema = object(params, "schema");
  const { title: own } = schema;
  const title = text(params, "title", "") || (typeof own === "string" ? own : name);
  const page = formPage(
    { title, schema, uiSchema: object(params, "uiSchema", {}), value: object(params, "value", {}) },
    randomBytes(16).toString("base64url"),
  );
  const panel = vscode.window.createWebviewPanel("bascule.form", title, vscode.ViewColumn.Active, {
    enableScripts: true,
    retainContextWhenHidden: true,
    localResourceRoots: [],
  });
  try {
    return { value: await entered(panel, page, signal) };
  } finally {
    panel.dispose();
  }
}

function entered(
  panel: vscode.WebviewPanel,
  page: string,
  signal: AbortSignal,
): Promise<Record<string, unknown> | null> {
  return new Promise((resolve) => {
    panel.onDidDispose(() => resolve(null));
    signal.addEventListener("abort", () => resolve(null), { once: true });
    panel.webview.onDidReceiveMessage((message: unknown) => {
      const value = isObject(message) ? message["value"] : undefined;
      resolve(isObject(value) ? value : null);
    });
    panel.webview.html = page;
  });
}
