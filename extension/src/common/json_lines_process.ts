/** A child process that speaks JSON, one message per line, on its stdin and stdout. */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import { messageOf } from "./failure";

/** Maximum characters of the child's stderr that are kept for error messages. */
const MAX_STDERR_CHARS = 2000;

export interface JsonLinesCommand {
  program: string;
  args: readonly string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
}

/** Calls `onEnd` once, after the last message, with the end of stderr or the start error. */
export class JsonLinesProcess<M> {
  private readonly child: ChildProcessWithoutNullStreams;
  private stderrTail = "";
  private isOver = false;

  constructor(
    { program, args, cwd, env }: JsonLinesCommand,
    private readonly onMessage: (message: M) => void,
    private readonly onEnd: (why: string) => void,
  ) {
    this.child = spawn(program, args, { cwd, env });
    const { stdin, stdout, stderr } = this.child;
    this.child.on("error", (error) => this.ended(messageOf(error)));
    stdin.on("error", () => undefined); // the child has ended; `close` reports that
    stderr.on("data", (data: Buffer) => {
      this.stderrTail = (this.stderrTail + data.toString()).slice(-MAX_STDERR_CHARS);
    });
    const lines = createInterface(stdout);
    lines.on("line", (line) => this.onMessage(JSON.parse(line) as M));
    // `close` of the child may come before the last lines were read.
    const read = new Promise<void>((resolve) => lines.on("close", resolve));
    this.child.on("close", () => void read.then(() => this.ended(this.stderrTail.trim())));
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  get isAlive(): boolean {
    return !this.isOver;
  }

  /** Sends a message. Does nothing after the child has ended. */
  send(message: object): void {
    if (this.child.stdin.writable) this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Closes the child's stdin; the child then exits. */
  close(): void {
    this.child.stdin.end();
  }

  private ended(why: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.onEnd(why);
  }
}
