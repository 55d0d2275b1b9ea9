import type { HubError } from "./types";

/** The hub refused a request or did not answer: a message for people, a code for programs. */
export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  static of(fault: Partial<HubError>, otherwise: string): Failure {
    return new Failure(fault.code ?? "unknown", fault.message ?? otherwise);
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
