/** Parses the output of `bascule net check --json` and `bascule net show --format json`. */
import { Failure } from "../common/failure";

/** Lines and columns are counted from 0, columns in UTF-16 code units as in VS Code. */
export interface Finding {
  isError: boolean;
  code: string;
  message: string;
  start: readonly [line: number, column: number];
  end: readonly [line: number, column: number];
}

/** The drawing of a net, and the line of each of its nodes, from 0. */
export interface NetDrawing {
  svg: string;
  places: ReadonlyMap<string, number>;
  transitions: ReadonlyMap<string, number>;
}

interface FindingJson {
  severity: string;
  code: string;
  message: string;
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
}

export function readFindings(output: string, text: string): Finding[] {
  const answer = parsed(output);
  if (!Array.isArray(answer)) throw unexpectedOutput(output);
  const lines = text.split(/\r\n|\r|\n/);
  const at = (line: number, column: number): readonly [number, number] => [
    line - 1,
    columnOf(lines[line - 1] ?? "", column),
  ];
  return (answer as FindingJson[]).map((each) => ({
    isError: each.severity === "error",
    code: each.code,
    message: each.message,
    start: at(each.line, each.column),
    end: at(each.endLine, each.endColumn),
  }));
}

export function readDrawing(output: string): NetDrawing {
  const answer = parsed(output) as Partial<
    Record<"svg" | "places" | "transitions", unknown>
  > | null;
  if (typeof answer?.svg !== "string") throw unexpectedOutput(output);
  return { svg: answer.svg, places: lines(answer.places), transitions: lines(answer.transitions) };
}

/** Converts a column: Python counts code points, VS Code UTF-16 code units. */
function columnOf(line: string, column: number): number {
  return Array.from(line)
    .slice(0, column - 1)
    .join("").length;
}

function lines(value: unknown): Map<string, number> {
  const entries = Object.entries((value ?? {}) as Record<string, number>);
  return new Map(entries.map(([id, line]) => [id, line - 1]));
}

function parsed(output: string): unknown {
  try {
    return JSON.parse(output);
  } catch {
    throw unexpectedOutput(output);
  }
}

function unexpectedOutput(output: string): Failure {
  return new Failure(
    "net.odd_answer",
    `bascule printed unexpected output: ${output.slice(0, 200)}`,
  );
}
