import { expect, test } from "vitest";
import { IntegrationOutput } from "../../src/terminal/integration_output";

function through(...pieces: string[]): string {
  const plain = new IntegrationOutput();
  return pieces.map((piece) => plain.add(piece)).join("") + plain.end();
}

test("marks of the integration are left out and newlines are plain", () => {
  expect(through("\x1b]633;C\x07one\r\ntwo\r\n\x1b]633;D;0\x07")).toBe("one\ntwo\n");
  expect(through("\x1b[?2004lhere\r\n")).toBe("here\n");
});

test("a program's own sequences stay", () => {
  const text = "\x1b[1mbold\x1b[0m \x1b]0;title\x07 100%\r50%\x1b[?25l";
  expect(through(text)).toBe(text);
});

test("wherever the stream is parted, the text is the same", () => {
  const stream = "\x1b]633;C\x07a\r\n\x1b[31mb\x1b[0m\rc\x1b]633;E;x;y\x1b\\d\r\n\x1b";
  const whole = through(stream);
  for (let at = 0; at <= stream.length; at += 1)
    expect(through(stream.slice(0, at), stream.slice(at))).toBe(whole);
  expect(through(...Array.from(stream))).toBe(whole);
});
