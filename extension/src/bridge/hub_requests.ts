/** What programs elsewhere ask through a hub, as actions of kind `bridge`. */
import type { Log } from "../common/log";
import { Desk, type Client, type Handlers } from "./dispatcher";
import { isObject, type ErrorShape, type Params } from "./messages";

export interface Answered {
  result: unknown;
  error: ErrorShape | null;
}

export interface FromElsewhere {
  /** The name of the hub's token, which stands for a run. */
  agent: string;
  /** Of the action. */
  id: string;
  request: string;
  params: Params;
  signal: AbortSignal;
  onPiece: (value: unknown) => void;
}

export class Elsewhere {
  private readonly desks = new Map<string, Desk>();

  constructor(
    private readonly handlers: Handlers,
    private readonly log: Log,
  ) {}

  ask(asked: FromElsewhere): Promise<Answered> {
    const { agent, id, request, params, signal, onPiece } = asked;
    const desk = this.desk(agent);
    return new Promise((resolve) => {
      const client: Client = {
        key: agent,
        send: (text) => {
          const told = JSON.parse(text) as Record<string, unknown>;
          if ("success" in told) resolve(answered(told));
          else if (isObject(told["params"])) onPiece(told["params"]["value"]);
        },
      };
      if (request === "$/progress") {
        desk.receive(client, { is: "progress", id: String(params["id"]), value: params["value"] });
        resolve({ result: null, error: null });
        return;
      }
      signal.addEventListener("abort", () => desk.receive(client, { is: "cancel", id }), {
        once: true,
      });
      desk.receive(client, { is: "request", id, type: request, params });
    });
  }

  private desk(agent: string): Desk {
    const known = this.desks.get(agent);
    if (known) return known;
    const made = new Desk({ id: `hub ${agent}`, name: agent }, this.handlers, this.log);
    this.desks.set(agent, made);
    return made;
  }
}

function answered({ result = null, error = null }: Record<string, unknown>): Answered {
  return { result, error: error as ErrorShape | null };
}
