/** Handles bridge requests that arrive through a hub, as actions of kind `bridge`. */
import type { Log } from "../common/log";
import { RequestDispatcher, type BridgeClient, type RequestHandlers } from "./dispatcher";
import { isObject, type ErrorShape, type Params } from "./messages";

export interface BridgeAnswer {
  result: unknown;
  error: ErrorShape | null;
}

export interface HubRequest {
  /** The agent's unique name. All requests of an agent belong to the same run. */
  agent: string;
  /** Id of the action. */
  id: string;
  request: string;
  params: Params;
  signal: AbortSignal;
  onPiece: (value: unknown) => void;
}

export class HubRequests {
  private readonly dispatchers = new Map<string, RequestDispatcher>();

  constructor(
    private readonly handlers: RequestHandlers,
    private readonly log: Log,
  ) {}

  ask(hubRequest: HubRequest): Promise<BridgeAnswer> {
    const { agent, id, request, params, signal, onPiece } = hubRequest;
    const dispatcher = this.dispatcher(agent);
    return new Promise((resolve) => {
      const client: BridgeClient = {
        key: agent,
        send: (text) => {
          const message = JSON.parse(text) as Record<string, unknown>;
          if ("success" in message) resolve(answered(message));
          else if (isObject(message["params"])) onPiece(message["params"]["value"]);
        },
      };
      if (request === "$/progress") {
        dispatcher.receive(client, {
          is: "progress",
          id: String(params["id"]),
          value: params["value"],
        });
        resolve({ result: null, error: null });
        return;
      }
      signal.addEventListener("abort", () => dispatcher.receive(client, { is: "cancel", id }), {
        once: true,
      });
      dispatcher.receive(client, { is: "request", id, type: request, params });
    });
  }

  private dispatcher(agent: string): RequestDispatcher {
    const known = this.dispatchers.get(agent);
    if (known) return known;
    const dispatcher = new RequestDispatcher(
      { id: `hub ${agent}`, name: agent },
      this.handlers,
      this.log,
    );
    this.dispatchers.set(agent, dispatcher);
    return dispatcher;
  }
}

function answered({ result = null, error = null }: Record<string, unknown>): BridgeAnswer {
  return { result, error: error as ErrorShape | null };
}
