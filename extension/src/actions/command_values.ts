/**
 * VS Code's types in the arguments and results of commands, as JSON: `{"$uri": …}`,
 * `{"$position": …}`, `{"$range": …}`, `{"$selection": …}` and `{"$location": …}`.
 * docs/protocol.md describes the forms.
 */
import { Failure } from "../common/failure";

/** Creates values of VS Code's types, and recognizes them. */
export interface ValueTypes {
  /** From a path, or a URI with its scheme. */
  uri(given: string): object;
  position(line: number, character: number): object;
  range(...numbers: FourNumbers): object;
  selection(...numbers: FourNumbers): object;
  location(uri: object, range: object): object;
  /** The JSON form of a value of one of these types; undefined for any other value. */
  formOf(value: object): ValueForm | undefined;
}

export type FourNumbers = [number, number, number, number];
export type ValueForm =
  | { $uri: string }
  | { $position: [number, number] }
  | { $range: FourNumbers }
  | { $selection: FourNumbers }
  | { $location: { uri: string; range: FourNumbers } };

const FORMS = new Set(["$uri", "$position", "$range", "$selection", "$location"]);
/** Nested values beyond this depth are left out of results. */
const MAX_DEPTH = 40;

/** Replaces every JSON form, at any depth. Fails with `action.invalid` if a form is wrong. */
export function withValues(args: readonly unknown[], types: ValueTypes): unknown[] {
  return args.map((each, n) => converted(each, `arguments[${n}]`, types));
}

function converted(value: unknown, at: string, types: ValueTypes): unknown {
  if (Array.isArray(value)) return value.map((each, n) => converted(each, `${at}[${n}]`, types));
  if (typeof value !== "object" || value === null) return value;
  const names = Object.keys(value);
  const form = names.find((name) => FORMS.has(name));
  if (form === undefined)
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, converted(each, `${at}.${name}`, types)]),
    );
  if (names.length > 1)
    throw invalid(
      at,
      `an object with "${form}" can have no other name, but this one has ${names.join(", ")}`,
    );
  return valueOf(form, (value as Record<string, unknown>)[form], at, types);
}

function valueOf(form: string, given: unknown, at: string, types: ValueTypes): object {
  switch (form) {
    case "$uri":
      return uri(given, `${at}.$uri`, types);
    case "$position":
      return types.position(...(numbers(given, 2, `${at}.$position`) as [number, number]));
    case "$range":
      return types.range(...(numbers(given, 4, `${at}.$range`) as FourNumbers));
    case "$selection":
      return types.selection(...(numbers(given, 4, `${at}.$selection`) as FourNumbers));
    default:
      return location(given, `${at}.$location`, types);
  }
}

function uri(given: unknown, at: string, types: ValueTypes): object {
  if (typeof given !== "string" || !given)
    throw invalid(at, `a path or URI as text is needed, not ${JSON.stringify(given)}`);
  try {
    return types.uri(given);
  } catch (error) {
    throw invalid(at, `${JSON.stringify(given)}: ${(error as Error).message}`);
  }
}

function location(given: unknown, at: string, types: ValueTypes): object {
  const {
    uri: file,
    range,
    ...rest
  } = (typeof given === "object" && given !== null ? given : {}) as Record<string, unknown>;
  if (file === undefined || range === undefined || Object.keys(rest).length)
    throw invalid(at, 'an object with exactly "uri" and "range" is needed');
  const four = numbers(range, 4, `${at}.range`) as FourNumbers;
  return types.location(uri(file, `${at}.uri`, types), types.range(...four));
}

function numbers(given: unknown, count: number, at: string): number[] {
  const isRight =
    Array.isArray(given) &&
    given.length === count &&
    given.every((each) => Number.isSafeInteger(each) && (each as number) >= 0);
  if (isRight) return given as number[];
  const what = count === 2 ? "[line, character]" : "[line, character, line, character]";
  throw invalid(at, `${what}, whole numbers from 0, is needed, not ${JSON.stringify(given)}`);
}

function invalid(at: string, why: string): Failure {
  return new Failure("action.invalid", `The command was not run: ${at}: ${why}`);
}

/** A result as JSON. Functions and values that contain themselves are left out. */
export function asJson(value: unknown, types: ValueTypes): unknown {
  return plain(value, types, []) ?? null;
}

function plain(value: unknown, types: ValueTypes, above: readonly object[]): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (above.includes(value) || above.length > MAX_DEPTH) return undefined;
  const form = types.formOf(value);
  if (form) return form;
  const inside = [...above, value];
  if (Array.isArray(value)) return value.map((each) => plain(each, types, inside) ?? null);
  if (value instanceof Set) return [...value].map((each) => plain(each, types, inside) ?? null);
  if (value instanceof Map) return entries([...value], types, inside);
  if (value instanceof Error) return { name: value.name, message: value.message };
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function")
    return plain((toJSON as () => unknown).call(value), types, inside);
  return entries(Object.entries(value), types, inside);
}

function entries(
  pairs: readonly (readonly [unknown, unknown])[],
  types: ValueTypes,
  above: readonly object[],
): Record<string, unknown> {
  const kept = pairs
    .map(([name, each]) => [String(name), plain(each, types, above)] as const)
    .filter(([, each]) => each !== undefined);
  return Object.fromEntries(kept);
}
