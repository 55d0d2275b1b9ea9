/** Messages between a script and its window. See the table in docs/bridge.md. */
import { Failure } from "../common/failure";

export const BRIDGE_PROTOCOL = 1;
export const SUBPROTOCOL = "bascule.bridge.v1";
/** Maximum bytes of a message, in either direction. */
export const MAX_MESSAGE_BYTES = 4 << 20;

export type RequestId = string | number;
export type Params = Readonly<Record<string, unknown>>;

export interface ErrorShape {
  code: string;
  message: string;
  detail: Readonly<Record<string, unknown>>;
}

export type Outgoing =
  | { type: "bridge/hello"; params: Params }
  | { type: "$/progress"; params: { id: RequestId; value: unknown } }
  | { type: "event"; event: string; body: Params }
  | { id: RequestId; success: true; result: unknown }
  | { id: RequestId; success: false; error: ErrorShape };

export type Incoming =
  | { is: "hello"; params: Params }
  | { is: "request"; id: RequestId; type: string; params: Params }
  | { is: "cancel"; id: RequestId }
  | { is: "progress"; id: RequestId; value: unknown }
  | { is: "event"; event: string; body: Params };

/** Fails with `bridge.protocol` for an invalid message. */
export function parse(text: string): Incoming {
  let shape: unknown;
  try {
    shape = JSON.parse(text);
  } catch {
    throw new Failure("bridge.protocol", "This is not JSON");
  }
  return parseMessage(shape);
}

/** Like `parse`, for a message that is already decoded from JSON. */
export function parseMessage(shape: unknown): Incoming {
  if (!isObject(shape)) throw new Failure("bridge.protocol", "A message is an object");
  const { type, id, params = {} } = shape;
  if (type === "event" || type === "dapEvent") {
    const { event, body = {} } = shape;
    if (typeof event === "string" && isObject(body)) return { is: "event", event, body };
  } else if (typeof type === "string" && isObject(params)) {
    if (type === "bridge/hello") return { is: "hello", params };
    if (type === "$/cancel" && isId(params["id"])) return { is: "cancel", id: params["id"] };
    if (type === "$/progress" && isId(params["id"]))
      return { is: "progress", id: params["id"], value: params["value"] };
    if (isId(id)) return { is: "request", id, type, params };
  }
  throw new Failure("bridge.protocol", "This is not a bridge message");
}

/** Encodes a message. An answer that is too large or not serializable becomes an error. */
export function format(message: Outgoing): string {
  const text = tryFormat(message);
  if (typeof text === "string" && Buffer.byteLength(text) <= MAX_MESSAGE_BYTES) return text;
  const failure =
    text instanceof Failure
      ? text
      : new Failure("bridge.too_large", `The answer has more than ${MAX_MESSAGE_BYTES} bytes`);
  if (!("id" in message)) throw failure;
  return JSON.stringify(failureMessage(message.id, failure));
}

export function failureMessage(id: RequestId, { code, message, detail }: Failure): Outgoing {
  return { id, success: false, error: { code, message, detail } };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function tryFormat(message: Outgoing): string | Failure {
  try {
    return JSON.stringify(message);
  } catch {
    return new Failure("command.not_serializable", "The answer cannot be converted to JSON");
  }
}

function isId(value: unknown): value is RequestId {
  return typeof value === "string" || typeof value === "number";
}
