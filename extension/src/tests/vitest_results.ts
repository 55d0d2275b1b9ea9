/** Reads the JSON of Vitest's reporter `json`, which has the form of Jest's, and `vitest list --json`. */
import * as path from "node:path";
import { shortMessage, type ListedTest, type Outcome, type TestResult } from "./test_results";

interface Assertion {
  ancestorTitles: string[];
  title: string;
  status: string;
  duration?: number | null;
  failureMessages?: string[];
  location?: { line: number } | null;
}

interface Report {
  testResults: {
    name: string;
    status: string;
    message?: string;
    assertionResults: Assertion[];
  }[];
}

interface Listed {
  name: string;
  file: string;
  location?: { line: number };
}

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  passed: "passed",
  failed: "failed",
};
/** Separates the titles in an id, as in Vitest's own output. */
export const TITLES = " > ";

/** Finds the report in the output of a command. Paths become relative to `directory`. */
export function parseVitest(output: string, directory: string): TestResult[] | undefined {
  const report = jsonIn(output, /^\{"numTotalTestSuites":/m) as Report | undefined;
  return report?.testResults.flatMap(({ name, status, message = "", assertionResults }) => {
    const file = relative(directory, name);
    const results = assertionResults.map((each) => resultOf(each, name, file));
    // The file itself failed, for example at an import.
    if (status !== "failed" || results.some(({ outcome }) => outcome === "failed")) return results;
    const line = lineIn(message, name);
    const error = { outcome: "error", message: shortMessage(message), duration: 0, line } as const;
    return [...results, { id: file, path: file, ...error }];
  });
}

export function parseVitestList(output: string, directory: string): ListedTest[] | undefined {
  const found = jsonIn(output, /^\[(?:\s*\{\s*"name":|\]\s*$)/m) as Listed[] | undefined;
  return found?.map(({ name, file, location }) => {
    const place = relative(directory, file);
    return { id: `${place}::${name}`, path: place, line: location?.line ?? null };
  });
}

function resultOf(assertion: Assertion, file: string, shown: string): TestResult {
  const { ancestorTitles, title, status, duration, failureMessages = [], location } = assertion;
  const message = failureMessages.join("\n");
  return {
    id: `${shown}::${[...ancestorTitles, title].join(TITLES)}`,
    outcome: OUTCOMES[status] ?? "skipped",
    message: shortMessage(withoutFrames(message, file)),
    duration: (duration ?? 0) / 1000,
    path: shown,
    line: lineIn(message, file) ?? location?.line ?? null,
  };
}

/** The line of the topmost frame of a stack in this file. */
function lineIn(message: string, file: string): number | null {
  for (const [, place, line] of message.matchAll(/(?:\(|\s)((?:file:\/\/)?\/[^\s()]+?):(\d+):\d+/g))
    if (place?.replace(/^file:\/\//, "") === file) return Number(line);
  return null;
}

/** Without stack frames in `node_modules`, which say nothing about the failure. */
function withoutFrames(message: string, file: string): string {
  const lines = message.split("\n");
  return lines
    .filter(
      (line) => !/^\s+at /.test(line) || line.includes(file) || !line.includes("node_modules"),
    )
    .filter((line) => !/^\s+at new Promise \(<anonymous>\)/.test(line))
    .join("\n");
}

/**
 * The JSON document that begins in the line where `start` matches and ends with that line or with
 * the next line that is only a bracket. Undefined if it is not whole.
 */
function jsonIn(output: string, start: RegExp): unknown {
  const at = output.search(start);
  if (at < 0) return undefined;
  const text = output.slice(at);
  for (const end of [text.indexOf("\n"), endOfLines(text), text.length])
    try {
      if (end > 0) return JSON.parse(text.slice(0, end)) as unknown;
    } catch {
      continue; // the document has more lines
    }
  return undefined;
}

function endOfLines(text: string): number {
  const found = /^\]\s*$/m.exec(text);
  return found ? found.index + 1 : -1;
}

function relative(directory: string, file: string): string {
  const found = path.relative(directory, file);
  return found.startsWith("..") ? file : found;
}
