import { expect, test } from "vitest";
import {
  asJson,
  withValues,
  type ValueForm,
  type ValueTypes,
} from "../../src/actions/command_values";
import { Failure } from "../../src/common/failure";

/** Stands for a value of VS Code; `form` is its JSON form. */
class Value {
  constructor(readonly form: ValueForm) {}
}

const types: ValueTypes = {
  uri: (given) => {
    if (given === "bad:") throw new Error("no such scheme");
    return new Value({ $uri: given });
  },
  position: (...numbers) => new Value({ $position: numbers }),
  range: (...numbers) => new Value({ $range: numbers }),
  selection: (...numbers) => new Value({ $selection: numbers }),
  location: (uri, range) => {
    const { $uri } = (uri as Value).form as { $uri: string };
    const { $range } = (range as Value).form as { $range: [number, number, number, number] };
    return new Value({ $location: { uri: $uri, range: $range } });
  },
  formOf: (value) => (value instanceof Value ? value.form : undefined),
};

const FORMS: ValueForm[] = [
  { $uri: "src/a.ts" },
  { $uri: "untitled:new" },
  { $position: [0, 4] },
  { $range: [0, 4, 2, 0] },
  { $selection: [2, 0, 0, 4] },
  { $location: { uri: "/a.ts", range: [1, 2, 3, 4] } },
];

test.each(FORMS)("%j becomes a value, and the same JSON again", (form) => {
  const [value] = withValues([form], types);
  expect(value).toBeInstanceOf(Value);
  expect(asJson(value, types)).toEqual(form);
});

test("forms are found at any depth, and other values stay as they are", () => {
  const plain = [1, "two", null, true, { $schema: "x", list: [{}] }];
  expect(withValues(plain, types)).toEqual(plain);
  const [nested] = withValues([{ deep: [{ at: { $position: [1, 2] } }] }], types);
  expect(nested).toEqual({ deep: [{ at: new Value({ $position: [1, 2] }) }] });
});

test.each([
  [{ $uri: 3 }, "arguments[0].$uri: a path or URI as text is needed, not 3"],
  [{ $uri: "" }, "a path or URI"],
  [{ $uri: "bad:" }, "no such scheme"],
  [{ $uri: "a", other: 1 }, "can have no other name, but this one has $uri, other"],
  [{ $position: [1] }, "[line, character], whole numbers from 0, is needed, not [1]"],
  [{ $position: [-1, 0] }, "not [-1,0]"],
  [{ $position: [0.5, 0] }, "not [0.5,0]"],
  [{ $position: { line: 1 } }, "[line, character]"],
  [{ $range: [0, 1] }, "[line, character, line, character]"],
  [{ $selection: "all" }, "arguments[0].$selection"],
  [{ $location: "a" }, 'exactly "uri" and "range"'],
  [{ $location: { uri: "a", range: [1, 2, 3, 4], more: 1 } }, 'exactly "uri" and "range"'],
  [{ $location: { uri: "a", range: [] } }, "arguments[0].$location.range"],
  [[{ deep: { $range: null } }], "arguments[0][0].deep.$range"],
])("%j is refused", (wrong, message) => {
  const work = (): unknown => withValues([wrong], types);
  expect(work).toThrow(Failure);
  expect(work).toThrow(message);
  expect(work).toThrow("The command was not run");
});

test("results are plain JSON: what JSON lacks is left out or written as text", () => {
  const loop: Record<string, unknown> = { name: "loop" };
  loop["self"] = loop;
  const result = {
    loop,
    map: new Map([["a", new Value({ $position: [0, 0] })]]),
    set: new Set([1]),
    big: 10n,
    none: undefined,
    call: () => 1,
    error: new TypeError("bad"),
    own: { toJSON: () => [new Value({ $uri: "/a" })] },
    list: [undefined, () => 1],
    number: NaN,
  };
  expect(asJson(result, types)).toEqual({
    loop: { name: "loop" },
    map: { a: { $position: [0, 0] } },
    set: [1],
    big: "10",
    error: { name: "TypeError", message: "bad" },
    own: [{ $uri: "/a" }],
    list: [null, null],
    number: null,
  });
  expect(asJson(undefined, types)).toBeNull();
});
