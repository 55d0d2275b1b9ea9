/**
 * Reads the test vectors of rules that exist in TypeScript and in Python.
 * `tests/contracts/shared_vectors.py` is the same for the sandbox's tests.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A text as vectors write it: a string, or parts of which `[part, n]` is repeated n times. */
export type VectorText = string | (string | [string, number])[];

export function load(name: string): unknown {
  const file = join(import.meta.dirname, `../../tests/contracts/vectors/${name}.json`);
  return JSON.parse(readFileSync(file, "utf8")) as unknown;
}

export function text(value: VectorText): string {
  if (typeof value === "string") return value;
  return value.map((part) => (typeof part === "string" ? part : part[0].repeat(part[1]))).join("");
}

/** Bytes as vectors write them: characters up to U+00FF. */
export function data(value: VectorText): Buffer {
  return Buffer.from(text(value), "latin1");
}
