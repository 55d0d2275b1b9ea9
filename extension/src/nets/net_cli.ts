/** Runs `bascule net` on a text. Does not import vscode. */
import { spawn } from "node:child_process";
import { codeOf, Failure } from "../common/failure";
import { bascule, NO_PROGRAM } from "../common/nets";

const NOT_THERE = ["ENOENT", "EACCES", "ENOTDIR"];
const MAX_OUTPUT_BYTES = 16 << 20;
/** Milliseconds for bascule to read a net. A slower net is not checked or drawn. */
const TIMEOUT_MS = 30_000;
/** Error code: the program exceeded the timeout and was killed. */
export const TOO_LONG = "net.too_long";

export interface NetCliResult {
  status: number | null;
  output: string;
  errors: string;
}

export class NetCli {
  constructor(
    private readonly python: () => string,
    private readonly environment: NodeJS.ProcessEnv = process.env,
    private readonly timeoutMs = TIMEOUT_MS,
  ) {}

  /**
   * Runs bascule with `input` on stdin. Rejects when `signal` aborts, with `NO_PROGRAM` if bascule
   * is not installed, and with `TOO_LONG` after the timeout, which kills the program.
   */
  ask(args: string[], input: string, signal: AbortSignal): Promise<NetCliResult> {
    return new Promise((resolve, reject) => {
      const [command, ...rest] = bascule(this.python(), ...args);
      const fail = (error: Error): void =>
        reject(NOT_THERE.includes(codeOf(error)) ? missing(command) : error);
      // Do not import modules from the current directory.
      const environment = { ...this.environment, PYTHONSAFEPATH: "1" };
      const child = spawn(command, rest, {
        signal,
        env: environment,
        timeout: this.timeoutMs,
        killSignal: "SIGKILL",
      });
      const output = collect(child.stdout);
      const errors = collect(child.stderr);
      child.on("error", fail);
      child.stdin.on("error", () => undefined); // bascule ended without reading; `close` reports the status
      child.stdin.end(input);
      child.on("close", (status) => {
        const result = { status, output: output(), errors: errors() };
        if (child.killed && !signal.aborted) reject(tooLong(this.timeoutMs));
        else if (status !== 0 && /No module named '?bascule/.test(result.errors))
          reject(missing(command));
        else resolve(result);
      });
    });
  }
}

function missing(command: string): Failure {
  return new Failure(NO_PROGRAM, `bascule was not found (tried ${command})`);
}

function tooLong(timeoutMs: number): Failure {
  const seconds = timeoutMs / 1000;
  return new Failure(
    TOO_LONG,
    `This net takes longer than ${seconds} s to read, so it is not checked`,
  );
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const parts: Buffer[] = [];
  let length = 0;
  stream.on("data", (data: Buffer) => {
    length += data.length;
    if (length <= MAX_OUTPUT_BYTES) parts.push(data);
  });
  return () => Buffer.concat(parts).toString();
}
