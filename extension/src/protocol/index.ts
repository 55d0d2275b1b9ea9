/** Types of the events in `events.ts` by kind, and functions that create observations. */
import { randomUUID } from "node:crypto";
import type { Action, Observation } from "./events";

export type * from "./events";

export type ActionKind = Action["action"];
export type ObservationKind = Observation["observation"];
export type ActionOf<K extends ActionKind> = Extract<Action, { action: K }>;
export type ArgsOf<K extends ActionKind> = ActionOf<K>["args"];
export type ObservationOf<K extends ObservationKind> = Extract<Observation, { observation: K }>;
export type ExtrasOf<K extends ObservationKind> = ObservationOf<K>["extras"];

/** An observation without id and cause. */
export interface ObservationBody<K extends ObservationKind = ObservationKind> {
  observation: K;
  content: string;
  extras: Record<string, unknown>;
  success?: boolean;
  /** Something that the agent should know besides the result. */
  note?: string;
  /** Number of the checkpoint with what the action changed. The hub takes it out of the message. */
  checkpoint?: number;
}

export function observe<K extends ObservationKind>(
  observation: K,
  content: string,
  extras: ExtrasOf<K>,
  success?: boolean,
): ObservationBody<K> {
  return {
    observation,
    content,
    extras: extras,
    ...(success === undefined ? {} : { success }),
  };
}

export function errorObservation(code: string, message: string): ObservationBody<"error"> {
  return observe("error", message, { error_id: code });
}

/** An observation as it is sent. */
export interface SentObservation extends ObservationBody {
  id: string;
  timestamp: string;
  source: "environment";
  cause: string;
}

export function observationFor(cause: string, what: ObservationBody): SentObservation {
  return {
    id: randomUUID(),
    timestamp: new Date().toISOString(),
    source: "environment",
    cause,
    ...what,
  };
}
