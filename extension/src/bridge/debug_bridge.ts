/**
 * The bridge of a debug session: questions come as `customRequest` events of our own debug
 * adapter, answers leave as `customRequestResponse` requests. There is no server.
 */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { messageOf } from "../common/failure";
import type { Log } from "../common/log";
import { DEBUG_TYPE } from "../manifest";
import { Desk, type Client, type Handlers } from "./dispatcher";
import { isObject, understand } from "./messages";

export class DebugBridge implements Disposable {
  private readonly watching: vscode.Disposable[];
  private readonly desks = new Map<string, Desk>();

  constructor(
    private readonly handlers: Handlers,
    private readonly log: Log,
    private readonly onEnded: (run: string) => void,
  ) {
    this.watching = [
      vscode.debug.onDidReceiveDebugSessionCustomEvent(({ session, event, body }) => {
        if (session.type === DEBUG_TYPE && event === "customRequest") this.receive(session, body);
      }),
      vscode.debug.onDidTerminateDebugSession(({ id }) => {
        this.desks.get(id)?.dispose();
        if (this.desks.delete(id)) this.onEnded(id);
      }),
    ];
  }

  dispose(): void {
    for (const each of this.watching) each.dispose();
    for (const desk of this.desks.values()) desk.dispose();
  }

  private receive(session: vscode.DebugSession, body: unknown): void {
    try {
      const { requestId: id, ...rest } = isObject(body) ? body : {};
      this.desk(session).receive(this.client(session), understand({ ...rest, id }));
    } catch (error) {
      this.log.warn(`debug session ${session.name}: ${messageOf(error)}`);
    }
  }

  private desk(session: vscode.DebugSession): Desk {
    const known = this.desks.get(session.id);
    if (known) return known;
    const made = new Desk({ id: session.id, name: session.name }, this.handlers, this.log);
    this.desks.set(session.id, made);
    return made;
  }

  private client(session: vscode.DebugSession): Client {
    return {
      key: session.id,
      send: (text) => {
        const { id, ...rest } = JSON.parse(text) as Record<string, unknown>;
        const told = id === undefined ? rest : { requestId: id, ...rest };
        session.customRequest("customRequestResponse", told).then(undefined, (error: unknown) => {
          this.log.debug(
            `debug session ${session.name} did not take an answer: ${messageOf(error)}`,
          );
        });
      },
    };
  }
}
