/**
 * The bridge of a debug session: requests arrive as `customRequest` events of our debug adapter;
 * answers are sent as `customRequestResponse` requests. There is no server.
 */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { DEBUG_TYPE } from "../manifest";
import { RequestDispatcher, type BridgeClient, type RequestHandlers } from "./dispatcher";
import { isObject, parseMessage } from "./messages";

export class DebugBridge implements Disposable {
  private readonly watching: vscode.Disposable[];
  private readonly dispatchers = new Map<string, RequestDispatcher>();

  constructor(
    private readonly handlers: RequestHandlers,
    private readonly log: Log,
    private readonly onEnded: (run: string) => void,
  ) {
    this.watching = [
      vscode.debug.onDidReceiveDebugSessionCustomEvent(({ session, event, body }) => {
        if (session.type === DEBUG_TYPE && event === "customRequest") this.receive(session, body);
      }),
      vscode.debug.onDidTerminateDebugSession(({ id }) => {
        this.dispatchers.get(id)?.dispose();
        if (this.dispatchers.delete(id)) this.onEnded(id);
      }),
    ];
  }

  dispose(): void {
    for (const each of this.watching) each.dispose();
    for (const dispatcher of this.dispatchers.values()) dispatcher.dispose();
  }

  private receive(session: vscode.DebugSession, body: unknown): void {
    try {
      const { requestId: id, ...rest } = isObject(body) ? body : {};
      this.dispatcher(session).receive(this.client(session), parseMessage({ ...rest, id }));
    } catch (error) {
      this.log.warn(`debug session ${session.name}: ${messageOf(error)}`);
    }
  }

  private dispatcher(session: vscode.DebugSession): RequestDispatcher {
    const known = this.dispatchers.get(session.id);
    if (known) return known;
    const dispatcher = new RequestDispatcher(
      { id: session.id, name: session.name },
      this.handlers,
      this.log,
    );
    this.dispatchers.set(session.id, dispatcher);
    return dispatcher;
  }

  private client(session: vscode.DebugSession): BridgeClient {
    return {
      key: session.id,
      send: (text) => {
        const { id, ...rest } = JSON.parse(text) as Record<string, unknown>;
        const response = id === undefined ? rest : { requestId: id, ...rest };
        session
          .customRequest("customRequestResponse", response)
          .then(undefined, (error: unknown) => {
            this.log.debug(
              `debug session ${session.name} did not take an answer: ${messageOf(error)}`,
            );
          });
      },
    };
  }
}
