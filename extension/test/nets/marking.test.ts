import { expect, test } from "vitest";
import { Marking, shownTokens } from "../../src/nets/marking";

function after(...events: object[]): Marking {
  const marking = new Marking();
  for (const event of events) marking.add(JSON.stringify(event));
  return marking;
}

const held = (marking: Marking): object => Object.fromEntries(marking.places);
const started = { event: "started", net: "n", marking: { a: [1, { x: 1 }, 1] } };

test("a firing takes the tokens it names, by value, and puts others", () => {
  const marking = after(started, {
    event: "fired",
    transition: "t",
    consumed: { a: [{ x: 1 }] },
    produced: { b: ["new"] },
  });

  expect(held(marking)).toEqual({ a: [1, 1], b: ["new"] });
  expect(marking.fired).toBe("t");
});

test("an async firing has its tokens while it is under way, and gives them back undone", () => {
  const begun = { event: "begun", transition: "t", consumed: { a: [1] } };
  const fired = { ...begun, event: "fired", wasBegun: true, produced: { b: [2] } };
  const undone = { ...begun, event: "undone", wasBegun: true, error: "no" };

  expect(held(after(started, begun))).toEqual({ a: [{ x: 1 }, 1] });
  expect(held(after(started, begun, fired))).toEqual({ a: [{ x: 1 }, 1], b: [2] });
  expect(held(after(started, begun, undone))).toEqual({ a: [{ x: 1 }, 1, 1] });
});

test("a sync firing that is undone has changed nothing", () => {
  const undone = { event: "undone", transition: "t", consumed: { a: [1] }, wasBegun: false };

  expect(held(after(started, undone))).toEqual({ a: [1, { x: 1 }, 1] });
});

test("a marking that somebody changed, and that of the end, is taken as it is", () => {
  expect(held(after(started, { event: "changed", marking: { c: [3] } }))).toEqual({ c: [3] });
  const ended = after(started, { event: "ended", outcome: "deadlock", marking: { d: [4] } });
  expect([held(ended), ended.outcome]).toEqual([{ d: [4] }, "deadlock"]);
});

test("nothing is known before the first event", () => {
  expect([new Marking().hasBegun, after(started).hasBegun]).toEqual([false, true]);
});

test("tokens are shown in a few characters", () => {
  expect(shownTokens([], 16)).toBe("");
  expect(shownTokens([null, null], 16)).toBe("••");
  expect(shownTokens([null, null, null, null], 16)).toBe("4");
  expect(shownTokens(["Ann", 1, { x: [2] }], 16)).toBe("3 tokens");
  expect(shownTokens(["Ann", 1], 16)).toBe("Ann, 1");
  expect(shownTokens(["x".repeat(20)], 16)).toBe("1 token");
});
