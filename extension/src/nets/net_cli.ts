/** Asks `bascule net` about a text. No VS Code in here. */
import { spawn } from "node:child_process";
import { codeOf, Failure } from "../common/failure";
import { bascule, NO_PROGRAM } from "../common/nets";

const NOT_THERE = ["ENOENT", "EACCES", "ENOTDIR"];
const MOST_OUTPUT = 16 << 20;
/** A net that takes longer to read is neither checked nor drawn while one types. */
const TIMEOUT_MS = 30_000;
/** It took longer than that, and was ended. */
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
   * What it says about `input`. Rejects when the signal trips, and with `NO_PROGRAM` where there is
   * no such program, or a Python without it. One that takes too long is killed: `TOO_LONG`.
   */
  ask(args: string[], input: string, signal: AbortSignal): Promise<NetCliResult> {
    return new Promise((resolve, reject) => {
      const [command, ...rest] = bascule(this.python(), ...args);
      const fail = (error: Error): void =>
        reject(NOT_THERE.includes(codeOf(error)) ? missing(command) : error);
      // Modules that lie about in some directory are none of its own.
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
      child.stdin.on("error", () => undefined); // it ended without reading; `close` tells how
      child.stdin.end(input);
      child.on("close", (status) => {
        const said = { status, output: output(), errors: errors() };
        if (child.killed && !signal.aborted) reject(tooLong(this.timeoutMs));
        else if (status !== 0 && /No module named '?bascule/.test(said.errors))
          reject(missing(command));
        else resolve(said);
      });
    });
  }
}

function missing(command: string): Failure {
  return new Failure(NO_PROGRAM, `There is no bascule for nets (tried ${command})`);
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
    if (length <= MOST_OUTPUT) parts.push(data);
  });
  return () => Buffer.concat(parts).toString();
}
