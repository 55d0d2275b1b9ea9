import { appendFileSync, existsSync, statSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Trace } from "../../src/nets/trace";

/** A trace, and the lines that have come, to wait for. */
async function follow(): Promise<{ trace: Trace; until: (count: number) => Promise<string[]> }> {
  const lines: string[] = [];
  let woken = (): void => undefined;
  const trace = await Trace.begin(
    (some) => {
      lines.push(...some);
      woken();
    },
    (error) => {
      throw error;
    },
  );
  const until = async (count: number): Promise<string[]> => {
    while (lines.length < count) await new Promise<void>((resolve) => (woken = resolve));
    return lines;
  };
  return { trace, until };
}

test("lines come while they are written, whole, and the file is nobody else's", async () => {
  const { trace, until } = await follow();
  expect(statSync(trace.file).mode & 0o77).toBe(0);
  writeFileSync(trace.file, '{"a": 1}\n{"b":'); // as a program does that truncates it first

  expect(await until(1)).toEqual(['{"a": 1}']);
  appendFileSync(trace.file, ' "ü"}\n');
  expect(await until(2)).toEqual(['{"a": 1}', '{"b": "ü"}']);

  await trace.end();
});

test("the end reads what is left, and leaves nothing behind", async () => {
  const { trace, until } = await follow();
  const many = Array.from({ length: 50_000 }, (_, number) => JSON.stringify({ number }));
  appendFileSync(trace.file, many.join("\n") + "\n");

  await trace.end();

  expect(await until(0)).toEqual(many);
  expect(existsSync(trace.file)).toBe(false);
});
