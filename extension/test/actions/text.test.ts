/** The rules that need no editor: lines, encodings, diffs. */
import { expect, test } from "vitest";
import { unifiedDiff } from "../../src/actions/diff";
import { countLines, endWithNewline, sliceLines } from "../../src/actions/lines";
import { decode } from "../../src/actions/text_encoding";

test("lines end after a newline and only there", () => {
  expect(sliceLines("a\nb\u2028c\nd", 1, 2)).toBe("b\u2028c\n");
  expect(sliceLines("a\nb", 1, -1)).toBe("b");
  expect([countLines(""), countLines("a"), countLines("a\n"), countLines("\n\n")]).toEqual([
    0, 1, 1, 2,
  ]);
  expect([endWithNewline(""), endWithNewline("a"), endWithNewline("a\r\nb")]).toEqual([
    "",
    "a\n",
    "a\r\nb\r\n",
  ]);
});

test.each([
  ["UTF-8", Buffer.from("grün\n"), "grün\n"],
  ["UTF-8 with a mark", Buffer.from("\ufeffa\n"), "a\n"],
  ["UTF-16", Buffer.from("\ufeffa\r\n", "utf16le"), "a\r\n"],
  ["windows-1252", Buffer.from([0x80, 0xe9, 0x0a]), "€é\n"],
  ["latin-1", Buffer.from([0x81, 0xe9, 0x0a]), "\x81é\n"],
])("%s is read, and written back the same", (_, data, text) => {
  const decoded = decode(data, "f");
  expect(decoded.content).toBe(text);
  expect(decoded.format.encode(decoded.content, "f")).toEqual(data);
});

test("what is not text is said to be binary", () => {
  expect(() => decode(Buffer.from([1, 2, 0, 4]), "f")).toThrow("ERROR_BINARY_FILE");
});

test("a diff names lines, and the missing newline at the end", () => {
  expect(unifiedDiff("a\nb\nc\n", "a\nx\nc\nd", "f")).toBe(
    "--- f\n+++ f\n@@ -2 +2 @@\n-b\n+x\n@@ -3,0 +4 @@\n+d\n\\ No newline at end of file",
  );
  expect(unifiedDiff("", "a\n", "f")).toBe("--- f\n+++ f\n@@ -0,0 +1 @@\n+a");
  expect(unifiedDiff("a", "a", "f")).toBe("");
});

test("two changes far apart in a long file are two hunks", () => {
  const lines = Array.from({ length: 20_000 }, (_, n) => `line ${n}`);
  const after = ["first", ...lines.slice(1, -1), "last"].join("\n");
  expect(unifiedDiff(lines.join("\n"), after, "f").match(/^@@.*@@$/gm)).toEqual([
    "@@ -1 +1 @@",
    "@@ -20000 +20000 @@",
  ]);
});
