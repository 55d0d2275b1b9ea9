/**
 * Parsers of results, with output that pytest and Vitest printed, and lines in the documented
 * format of `go test -json` (`recorded/`).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseGo, parseGoList } from "../../src/tests/go_results";
import { parseJUnit } from "../../src/tests/junit";
import { parsePytestList } from "../../src/tests/listed_tests";
import {
  countsOf,
  countsText,
  inOrder,
  resultText,
  type TestResult,
} from "../../src/tests/test_results";
import { parseVitest, parseVitestList } from "../../src/tests/vitest_results";

const recorded = (name: string): string => readFileSync(join(__dirname, "recorded", name), "utf8");

const short = (results: readonly TestResult[] | undefined): string[] | undefined =>
  results?.map(({ outcome, id, path, line }) => `${outcome} ${id} ${path}:${line}`);

test("pytest's ids are those of its command line, and lines are those of failures", () => {
  const results = parseJUnit(recorded("pytest.xml"), "pytest") ?? [];
  const file = "tests/test_a.py";
  expect(short(results)).toEqual([
    `passed ${file}::TestSums::test_adds[1] ${file}:5`,
    `failed ${file}::TestSums::test_adds[2] ${file}:7`,
    `failed ${file}::test_helper ${file}:11`,
    `error ${file}::test_setup ${file}:21`,
    `skipped ${file}::test_skipped ${file}:28`,
    `skipped ${file}::test_xfail ${file}:33`,
  ]);
  expect(results[1]?.message).toContain('assert n + 1 == 2, "no <sum> & more"');
  expect(results[4]?.message).toBe("later");
});

test("a file that pytest cannot import is an error of this file", () => {
  const results = parseJUnit(recorded("pytest-import-error.xml"), "pytest") ?? [];
  expect(short(results)).toEqual(["error tests/test_bad.py tests/test_bad.py:1"]);
  expect(results[0]?.message).toContain("No module named 'nothing_here'");
  expect(parseJUnit(recorded("pytest-not-found.xml"), "pytest")).toEqual([]);
});

test("other JUnit XML has names of classes, CDATA and nested suites", () => {
  const text = `<?xml version="1.0"?><!-- made by hand -->
    <testsuites><testsuite name="one"><testsuite name='two'>
      <testcase classname="org.Sums" name="adds &#x41;" time="1,234.5"/>
      <testcase classname="org.Sums" name="fails" file="Sums.java" line="7">
        <failure message="expected 2"><![CDATA[at <Sums> & more]]></failure>
      </testcase>
    </testsuite></testsuite></testsuites>\n`;
  const results = parseJUnit(text, "junit") ?? [];
  expect(short(results)).toEqual([
    "passed org.Sums::adds A null:null",
    "failed org.Sums::fails Sums.java:7",
  ]);
  expect(results[0]?.duration).toBe(1234.5);
  expect(results[1]?.message).toBe("expected 2\nat <Sums> & more");
});

test.each(["", "no xml", "<testsuite><testcase name='a'>", "<html></html>", "<testsuite></other>"])(
  "%j is no JUnit XML",
  (text) => expect(parseJUnit(text, "junit")).toBeUndefined(),
);

test("Vitest's results have ids with titles, and files that fail are errors", () => {
  const output = `stderr of something\n${recorded("vitest.txt")}\nmore`;
  const results = parseVitest(output, "/w") ?? [];
  expect(short(results)).toEqual([
    "passed a.test.js::sums > adds (one) a.test.js:null",
    "failed a.test.js::sums > fails a.test.js:5",
    "skipped a.test.js::sums > later a.test.js:null",
    "passed a.test.js::top a.test.js:null",
    "error b.test.js b.test.js:null",
  ]);
  expect(results[1]?.message).toBe(
    "AssertionError: expected 2 to be 3 // Object.is equality\n    at /w/a.test.js:5:19",
  );
  expect(results[4]?.message).toBe("crash at import");
  expect(parseVitest("no results", "/w")).toBeUndefined();
  expect(parseVitest(output.slice(0, 400), "/w")).toBeUndefined();
});

test("Go's results name the directory of the package, and broken packages are errors", () => {
  const results = parseGo(recorded("go.txt"), "example.org/sums") ?? [];
  expect(short(results)).toEqual([
    "failed .::TestAdds/two sums_test.go:12",
    "failed .::TestAdds .:null",
    "passed .::TestPasses .:null",
    "skipped .::TestLater sums_test.go:20",
    "error broken broken/broken_test.go:6",
  ]);
  expect(results[0]?.message).toBe("sums_test.go:12: got 3, want 2");
  expect(parseGo("go: not found", "example.org/sums")).toBeUndefined();
});

test("lists of tests are read among other output", () => {
  const pytest =
    "tests/a.py::test_one[x y]\n\n=== ERRORS ===\nERROR tests/b.py::c\n1 test collected";
  expect(parsePytestList(pytest).map(({ id }) => id)).toEqual(["tests/a.py::test_one[x y]"]);
  const vitest = '[\n  {\n    "name": "a > b",\n    "file": "/w/c.test.ts"\n  }\n]\nmore';
  expect(parseVitestList(vitest, "/w")?.map(({ id }) => id)).toEqual(["c.test.ts::a > b"]);
  expect(parseVitestList("[]\n", "/w")).toEqual([]);
  expect(parseVitestList("Error: nothing", "/w")).toBeUndefined();
  const line = { Action: "output", Package: "m/sub", Output: "TestOne\n" };
  expect(parseGoList(JSON.stringify(line), "m")?.map(({ id }) => id)).toEqual(["sub::TestOne"]);
});

test("the text has the numbers, and the end of long messages", () => {
  const results = parseJUnit(recorded("pytest.xml"), "pytest") ?? [];
  expect(countsText(countsOf(results), 1.26)).toBe(
    "1 error, 2 failed, 2 skipped, 1 passed in 1.3 s",
  );
  expect(countsText(countsOf([]), 0)).toBe("No tests in 0.0 s");
  expect(inOrder(results)[0]?.outcome).toBe("error");
  const lines = resultText(results[2] as TestResult).split("\n");
  expect(lines[0]).toBe("FAILED tests/test_a.py::test_helper (tests/test_a.py:11)");
  expect(lines.at(-1)).toBe("    tests/test_a.py:11: ValueError");
});
