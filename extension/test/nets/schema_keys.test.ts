import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { suggestionsAt, type Schema } from "../../src/nets/schema_keys";

const file = join(import.meta.dirname, "../../../src/bascule/net/evolve.schema.json");
const schema = JSON.parse(readFileSync(file, "utf8")) as Schema;

const HEAD = `pnml:
  net:
    - id: n
      page:
        - id: main
          place:
            - id: p
              marking: [1]
          transition:
            - id: t
              inscriptions:
                - id: i
                  code: |
                    key: token
`;

const texts = (before: string): string[] => suggestionsAt(before, schema).map(({ text }) => text);

test("keys are those of the thing the caret is in", () => {
  expect(texts("")).toEqual(["pnml"]);
  expect(texts("pnml:\n  ")).toContain("net");
  expect(texts(`${HEAD}          `)).toEqual(
    expect.arrayContaining(["place", "transition", "arc"]),
  );
  expect(texts(`${HEAD}              `)).toEqual(expect.arrayContaining(["inscriptions", "arcs"]));
  expect(texts(`${HEAD}                  ti`)).toEqual(
    expect.arrayContaining(["kind", "execMode", "timeout"]),
  );
});

test("a new item of a list has the keys of its kind", () => {
  expect(texts(`${HEAD}            - `)).toContain("priority");
  expect(texts("pnml:\n  net:\n    place:\n    - ")).toContain("marking");
  expect(texts("pnml:\n  net:\n    place:\n    - id: p\n      ")).toContain("marking");
});

test("values are the words a key allows", () => {
  expect(texts(`${HEAD}                  kind: `)).toEqual(
    expect.arrayContaining(["guard", "expression"]),
  );
  expect(texts(`${HEAD}                  execMode: a`)).toContain("async");
});

test("nothing is offered inside code, nor after text", () => {
  expect(texts(`${HEAD}                    `)).toEqual([]);
  expect(texts(`${HEAD}          place: [ `)).toEqual([]);
});

test("what is offered says what it is for", () => {
  const [place] = suggestionsAt(`${HEAD}          `, schema).filter(({ text }) => text === "place");
  expect(place?.description).toBe("Where tokens are.");
});
