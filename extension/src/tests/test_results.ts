/** Results of tests as data and as text. Every parser of this directory returns this form. */
import { withoutControls } from "../common/terminal_text";

export type Outcome = "passed" | "failed" | "error" | "skipped";

export interface TestResult {
  [name: string]: unknown;
  /** Names the test for `run_tests`, such as `tests/test_a.py::test_one`. */
  id: string;
  outcome: Outcome;
  message: string;
  /** Seconds. */
  duration: number;
  /** Absolute, or relative to the directory of the command. */
  path: string | null;
  /** Where the test failed, otherwise where it is defined; null if unknown. */
  line: number | null;
}

/** A test that was listed, not run. */
export interface ListedTest {
  [name: string]: unknown;
  id: string;
  path: string | null;
  line: number | null;
}

/** The order of results in an answer: those that need attention come first. */
export const OUTCOMES: readonly Outcome[] = ["error", "failed", "skipped", "passed"];

/** Maximum characters of one message. Its end is kept, which says what failed. */
const MAX_MESSAGE_CHARS = 4000;
/** Maximum lines of a message in the text of an answer. */
const MAX_SHOWN_LINES = 12;

/** The message without colours and without its beginning if it is long. */
export function shortMessage(text: string): string {
  const plain = withoutControls(text).trim();
  return plain.length > MAX_MESSAGE_CHARS ? `…${plain.slice(1 - MAX_MESSAGE_CHARS)}` : plain;
}

export function inOrder(results: readonly TestResult[]): TestResult[] {
  return OUTCOMES.flatMap((outcome) => results.filter((each) => each.outcome === outcome));
}

export function countsOf(results: readonly TestResult[]): Record<Outcome, number> {
  const counts = { passed: 0, failed: 0, error: 0, skipped: 0 };
  for (const { outcome } of results) counts[outcome] += 1;
  return counts;
}

/** The numbers in one line, such as `2 failed, 40 passed in 1.3 s`. */
export function countsText(counts: Readonly<Record<Outcome, number>>, seconds: number): string {
  const names = { error: counts.error === 1 ? "error" : "errors", failed: "failed" };
  const parts = OUTCOMES.filter((each) => counts[each]).map(
    (each) => `${counts[each]} ${each in names ? names[each as keyof typeof names] : each}`,
  );
  return `${parts.join(", ") || "No tests"} in ${seconds.toFixed(1)} s`;
}

/** One test as text. Tests that passed or were skipped need one line. */
export function resultText({ id, outcome, message, path, line }: TestResult): string {
  const head = `${outcome.toUpperCase()} ${id}${placeText(path, line)}`;
  if (outcome === "passed") return head;
  if (outcome === "skipped") return message ? `${head}: ${message.split("\n")[0] ?? ""}` : head;
  const lines = message.split("\n");
  const left = lines.length - MAX_SHOWN_LINES;
  const shown = left > 0 ? [`… (${left} more lines)`, ...lines.slice(-MAX_SHOWN_LINES)] : lines;
  return [head, ...shown.map((each) => `    ${each}`)].join("\n");
}

export function listedText({ id, path, line }: ListedTest): string {
  return `${id}${placeText(path, line)}`;
}

function placeText(path: string | null, line: number | null): string {
  return path === null ? "" : ` (${path}${line === null ? "" : `:${line}`})`;
}
