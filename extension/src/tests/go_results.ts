/** Reads the events of `go test -json`, one JSON object per line. */
import { shortMessage, type ListedTest, type Outcome, type TestResult } from "./test_results";

interface GoEvent {
  Action: string;
  Package?: string;
  ImportPath?: string;
  Test?: string;
  Elapsed?: number;
  Output?: string;
}

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  pass: "passed",
  fail: "failed",
  skip: "skipped",
};
/** A place in the output of a test: `    sums_test.go:12: message`. */
const PLACE = /^\s*([^\s:]+\.go):(\d+):/m;

/** `module` is the module path of go.mod: ids have the directory of a package instead of it. */
export function parseGo(output: string, module: string): TestResult[] | undefined {
  const events = eventsIn(output);
  if (!events.length) return undefined;
  const texts = new Map<string, string>();
  const results: TestResult[] = [];
  for (const event of events) {
    const { Action, Output = "", Test, Elapsed = 0 } = event;
    const directory = directoryOf(event, module);
    const id = Test ? `${directory}::${Test}` : directory;
    if (Action === "output" || Action === "build-output") {
      texts.set(id, (texts.get(id) ?? "") + Output);
      continue;
    }
    const outcome = OUTCOMES[Action];
    if (!outcome) continue;
    if (Test) results.push(resultOf(id, outcome, texts.get(id) ?? "", Elapsed, directory));
    else if (outcome === "failed" && !results.some((each) => isFailedIn(each, directory)))
      // The package failed without a failed test: it does not compile, or a test ended the program.
      results.push(resultOf(id, "error", texts.get(id) ?? "", Elapsed, directory));
  }
  // A test whose subtest failed is in the results too, mostly with an empty message.
  return results;
}

/** The output of `go test -json -list .`: names of tests, then a line about the package. */
export function parseGoList(output: string, module: string): ListedTest[] | undefined {
  const events = eventsIn(output);
  if (!events.length) return undefined;
  return events.flatMap((event) => {
    const name = /^((?:Test|Example|Fuzz|Benchmark)\w*)\s*$/.exec(event.Output ?? "")?.[1];
    const directory = directoryOf(event, module);
    return name ? [{ id: `${directory}::${name}`, path: directory, line: null }] : [];
  });
}

function resultOf(
  id: string,
  outcome: Outcome,
  text: string,
  duration: number,
  directory: string,
): TestResult {
  const message = text
    .split("\n")
    .filter((line) => !/^\s*(?:=== |--- (?:PASS|FAIL|SKIP)|PASS$|FAIL$|FAIL\t|ok {2}\t)/.test(line))
    .join("\n");
  const place = PLACE.exec(message);
  const [, file = "", line] = place ?? [];
  const isPath = file.includes("/");
  return {
    id,
    outcome,
    message: outcome === "passed" ? "" : shortMessage(message),
    duration,
    path: place ? (isPath || directory === "." ? file : `${directory}/${file}`) : directory,
    line: place ? Number(line) : null,
  };
}

function isFailedIn({ id, outcome }: TestResult, directory: string): boolean {
  return outcome === "failed" && id.startsWith(`${directory}::`);
}

/** The directory of a package in the module, `.` for the module's own. */
function directoryOf({ Package, ImportPath }: GoEvent, module: string): string {
  // The path of a package that is built for tests is `pkg [pkg.test]`.
  const name = (Package ?? ImportPath ?? "").replace(/ \[.*$/, "");
  if (name === module) return ".";
  return name.startsWith(`${module}/`) ? name.slice(module.length + 1) : name;
}

function eventsIn(output: string): GoEvent[] {
  return output.split(/\r?\n/).flatMap((line) => {
    if (!line.startsWith('{"')) return []; // programs may print between the events
    try {
      const event = JSON.parse(line) as GoEvent;
      return typeof event.Action === "string" ? [event] : [];
    } catch {
      return []; // a line of a program that only looks like an event
    }
  });
}
