import { expect, test } from "vitest";
import { OutputThrottle } from "../../src/terminal/output_throttle";

function setUp() {
  const clock = { now: 0 };
  const shown: string[] = [];
  const display = new OutputThrottle(
    (data) => shown.push(data.toString()),
    () => clock.now,
  );
  return { clock, shown, display };
}

const lines = (count: number): Buffer => Buffer.from("0123456\n".repeat(count));

test("what comes at a readable pace is shown as it is", () => {
  const { clock, shown, display } = setUp();
  for (let n = 0; n < 100; n += 1) {
    clock.now += 100;
    display.add(lines(1000));
  }
  display.flush();
  expect(shown.join("")).toBe(lines(100_000).toString());
});

test("of a flood the beginning and the end are shown, and how much was not", () => {
  const { shown, display } = setUp();
  for (let n = 0; n < 1000; n += 1) display.add(lines(1000));
  display.add(Buffer.from("the end\n"));
  display.flush();
  const text = shown.join("");
  expect(text.length).toBeLessThan(600_000);
  expect(text.endsWith("0123456\nthe end\n")).toBe(true);
  const left = Number(/\[… ([\d,]+) bytes/.exec(text)?.[1]?.replaceAll(",", ""));
  const note = /\n\[….*…\]\n/.exec(text)?.[0].length ?? 0;
  expect(text.length - note + left).toBe(8_000_008);
});

test("after a flood what follows is shown again", () => {
  const { clock, shown, display } = setUp();
  for (let n = 0; n < 100; n += 1) display.add(lines(1000));
  clock.now += 2000;
  display.add(Buffer.from("calm\n"));
  expect(shown.at(-1)).toBe("calm\n");
});
