/** Reads typed parameters of requests. Fails with `bridge.invalid_params`. */
import { Failure } from "../common/failure";
import { isObject, type Params } from "./messages";

export function text(params: Params, name: string, otherwise?: string): string {
  return given(params, name, otherwise, (value) => typeof value === "string", "a string");
}

export function flag(params: Params, name: string, otherwise = false): boolean {
  return given(params, name, otherwise, (value) => typeof value === "boolean", "true or false");
}

/** A whole number of 1 or more. */
export function count(params: Params, name: string, otherwise?: number): number {
  const isValid = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) > 0;
  return given(params, name, otherwise, isValid, "a number from 1");
}

export function object(params: Params, name: string, otherwise?: Params): Params {
  return given(params, name, otherwise, isObject, "an object");
}

export function list(params: Params, name: string, otherwise?: unknown[]): unknown[] {
  return given(params, name, otherwise, Array.isArray, "a list");
}

export function texts(params: Params, name: string): string[] {
  const all = list(params, name, []);
  if (!all.every((each) => typeof each === "string")) throw invalid(name, "a list of texts");
  return all;
}

export function objects(params: Params, name: string): Params[] {
  const all = list(params, name);
  if (!all.every(isObject)) throw invalid(name, "a list of objects");
  return all;
}

export function isGiven(params: Params, name: string): boolean {
  return params[name] !== undefined && params[name] !== null;
}

export function invalid(name: string, expected: string): Failure {
  return new Failure("bridge.invalid_params", `'${name}' must be ${expected}`);
}

function given<T>(
  params: Params,
  name: string,
  otherwise: T | undefined,
  isValid: (value: unknown) => boolean,
  expected: string,
): T {
  const value = params[name] ?? otherwise;
  if (!isValid(value)) throw invalid(name, expected);
  return value as T;
}
