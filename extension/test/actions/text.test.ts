/** The rules that need no editor: edits, globs, encodings, diffs. */
import { expect, test } from "vitest";
import { unifiedDiff } from "../../src/actions/diff";
import { insertLines, replaceOnce } from "../../src/actions/edits";
import { compileGlob } from "../../src/actions/globs";
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

test("a text is replaced when it occurs once", () => {
  expect(replaceOnce("a\nb\nc\n", "b", "x\ny", "f")).toEqual({
    content: "a\nx\ny\nc\n",
    line: 2,
    lines: 2,
  });
});

test("white space around what an agent gives is looked past", () => {
  expect(replaceOnce("a\nb\n", " b \n ", "x", "f").content).toBe("a\nx\n");
});

test("a text that occurs never, or more than once, is refused with its lines", () => {
  expect(() => replaceOnce("a\n", "b", "c", "f")).toThrow("did not appear verbatim in f");
  expect(() => replaceOnce("a\nb a\na a\n", "a", "c", "f")).toThrow("in lines [1, 2, 3]");
});

test("lines are inserted after a line, also one without a newline", () => {
  expect(insertLines("a\nb", 2, "c").content).toBe("a\nb\nc");
  expect(insertLines("a\nb", 0, "c").content).toBe("c\na\nb");
  expect(() => insertLines("a\n", 2, "c")).toThrow("[0, 1]");
});

test.each([
  ["*.py", "a.py", true],
  ["*.py", "d/a.py", false],
  ["**/*.py", "a.py", true],
  ["**/*.py", "d/e/a.py", true],
  ["src/**", "src/a/b", true],
  ["src/**/test_*.{ts,js}", "src/x/test_a.ts", true],
  ["src/**/test_*.{ts,js}", "src/x/test_a.py", false],
  ["[!a-c]?.txt", "dx.txt", true],
  ["[!a-c]?.txt", "bx.txt", false],
  ["a\\*b", "a*b", true],
  ["a.b", "axb", false],
])("the glob %s and the path %s: %s", (pattern, file, fits) => {
  expect(compileGlob(pattern)(file)).toBe(fits);
});

test("a glob made to be slow is not", () => {
  const began = performance.now();
  expect(compileGlob(`${"*a".repeat(40)}b`)("a".repeat(200))).toBe(false);
  expect(compileGlob(`${"**/a/".repeat(20)}b`)("a/".repeat(100) + "c")).toBe(false);
  expect(performance.now() - began).toBeLessThan(500);
});

test.each(["/etc/*", "../*", "a[", "{a,b"])("the glob %s is refused", (pattern) => {
  expect(() => compileGlob(pattern)).toThrow();
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
