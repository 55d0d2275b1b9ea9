import { Failure } from "./failure";

/** Fails with `file.invalid_range` if the part of a list that an action asks for is impossible. */
export function ensurePageRange(args: object): void {
  const { offset = 0, limit = 1 } = args as { offset?: number; limit?: number };
  if (offset < 0 || limit < 1)
    throw new Failure(
      "file.invalid_range",
      `\`offset\` is ${offset} and \`limit\` ${limit}; they are at least 0 and 1`,
    );
}
