/** One bash process on its own pseudoterminal: input, output, signals, exit. */
import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import { promisify } from "node:util";
import { Failure } from "../common/failure";

const run = promisify(execFile);
/** Control characters that a terminal turns into signals. */
const SIGNALS = new Map<number, NodeJS.Signals>([
  [0x03, "SIGINT"],
  [0x1a, "SIGTSTP"],
  [0x1c, "SIGQUIT"],
]);

const SHELL_NAMES = new Set(["bash", "sh", "dash", "zsh", "fish", "ksh", "busybox"]);
/** Maximum bytes typed in one piece: a terminal in canonical mode holds 4,095 bytes of a line. */
const MAX_TYPED_LINE_BYTES = 4000;
const NEWLINE_BYTE = 0x0a;
const CTRL_D = 0x04;
/** Maximum bytes of one read. */
const MAX_READ_BYTES = 64 << 10;
/** Maximum bytes of one `drain`: a background job may print forever. */
const MAX_DRAIN_BYTES = 4 << 20;

/** The part of VS Code's bundled node-pty that we use. */
export interface PtyModule {
  spawn(file: string, args: string[], options: PtyOptions): Pty;
}

export interface PtyOptions {
  name: string;
  cols: number;
  rows: number;
  cwd: string;
  env: Record<string, string>;
  /** Bytes, not text. */
  encoding: null;
}

export interface Pty {
  readonly pid: number;
  /** The non-blocking master side of the terminal. Not documented by node-pty. */
  readonly fd: number;
  onData(listener: (data: Buffer) => void): unknown;
  onExit(listener: (end: { exitCode: number; signal?: number }) => void): unknown;
  write(data: Buffer): void;
  resize(columns: number, rows: number): void;
  kill(signal?: string): void;
}

export interface BashEvents {
  output(data: Buffer): void;
  /** Data from bash on the FIFO for ends of commands. */
  onMessage(data: Buffer): void;
  /** Called after the last output. A status above 128 means that a signal ended bash. */
  ended(status: number): void;
}

export interface BashStart {
  /** A private directory for the FIFOs. */
  directory: string;
  cwd: string;
  env: Record<string, string>;
  columns: number;
  rows: number;
}

/** Number of pairs of FIFOs created so far. */
let fifoPairs = 0;

export class BashProcess {
  isAlive = true;
  /** Whether bash ended before it had read all command lines. */
  leftLinesUnread = false;

  private constructor(
    private readonly pty: Pty,
    /** Bash reads command lines from this FIFO. */
    private readonly commandFifo: Fifo,
    /** Bash reports ends of commands on this FIFO. */
    private readonly endFifo: Fifo,
    private readonly events: BashEvents,
  ) {
    endFifo.socket.on("data", (data: Buffer) => events.onMessage(data));
    pty.onData((data) => events.output(data));
    pty.onExit(({ exitCode, signal }) => {
      for (let data = endFifo.read(); data; data = endFifo.read()) events.onMessage(data);
      this.leftLinesUnread =
        commandFifo.socket.writableLength > 0 || commandFifo.read() !== undefined;
      this.isAlive = false;
      commandFifo.close();
      endFifo.close();
      events.ended(signal ? 128 + signal : exitCode);
    });
  }

  static async start(
    module: PtyModule,
    place: BashStart,
    events: BashEvents,
  ): Promise<BashProcess> {
    fifoPairs += 1;
    const name = path.join(place.directory, `channel-${process.pid}-${fifoPairs}`);
    const fifos: Fifo[] = [];
    try {
      await run("mkfifo", ["-m", "600", name, `${name}-ends`]);
      const commandFifo = new Fifo(name, { readable: false, writable: true });
      fifos.push(commandFifo);
      const endFifo = new Fifo(`${name}-ends`, { readable: true, writable: false });
      fifos.push(endFifo);
      const script = 'exec bash --norc --noprofile --noediting -i <"$0"';
      const pty = module.spawn("bash", ["-c", script, name], {
        name: "xterm-256color",
        cols: place.columns,
        rows: place.rows,
        cwd: place.cwd,
        env: place.env,
        encoding: null,
      });
      return new BashProcess(pty, commandFifo, endFifo, events);
    } catch (error) {
      for (const fifo of fifos) fifo.close();
      throw new Failure("sandbox.start_failed", `bash could not be started: ${String(error)}`);
    }
  }

  /** The path of the FIFO on which bash reports ends of commands. */
  get endFifoPath(): string {
    return this.endFifo.path;
  }

  get pid(): number {
    return this.pty.pid;
  }

  /** Writes command lines to bash's command FIFO. Lines that do not fit yet are buffered. */
  sendLines(lines: string): void {
    if (this.isAlive) this.commandFifo.socket.write(lines);
  }

  /**
   * Delivers all output printed so far. A read fails with EAGAIN only when nothing is left in the
   * kernel, so no earlier output is missing afterwards.
   */
  drain(): void {
    let remainingBytes = MAX_DRAIN_BYTES;
    while (this.isAlive && remainingBytes > 0) {
      const data = readNow(this.pty.fd);
      if (!data) return;
      remainingBytes -= data.length;
      this.events.output(data);
    }
  }

  /**
   * Types into the program that reads the terminal. Splits long lines with Ctrl-D, which passes the
   * line so far to the program.
   */
  type(data: Buffer): void {
    if (!this.isAlive) return;
    if (data.length <= MAX_TYPED_LINE_BYTES) return this.pty.write(data);
    const pieces: Buffer[] = [];
    let lineBytes = 0;
    for (const byte of data) {
      if (byte !== NEWLINE_BYTE && lineBytes === MAX_TYPED_LINE_BYTES) {
        pieces.push(Buffer.of(CTRL_D));
        lineBytes = 0;
      }
      pieces.push(Buffer.of(byte));
      lineBytes = byte === NEWLINE_BYTE ? 0 : lineBytes + 1;
    }
    this.pty.write(Buffer.concat(pieces));
  }

  /**
   * Presses a control key such as `C-c`, if `isWanted` still holds. A signal key is sent as a
   * signal: as a byte it could arrive later, in the middle of the next command. Programs in raw
   * mode get the byte, which the terminal keeps until they read it.
   *
   * The result is undefined if the key has arrived or is not wanted. Otherwise the signal may be
   * lost: it may have reached only bash, a child before its exec, or a program that just ended. Then
   * the result is a process group, and the caller should press the key again as soon as a group
   * other than bash's and this one is in the foreground.
   */
  async press(key: string, isWanted: () => boolean): Promise<number | undefined> {
    const code = key.toUpperCase().charCodeAt(key.length - 1) & 0x1f;
    const signal = SIGNALS.get(code);
    const isSentAsByte = !signal || !(await this.doKeysSendSignals());
    if (!isWanted() || !this.isAlive) return undefined;
    if (isSentAsByte) {
      this.type(Buffer.of(code));
      return undefined;
    }
    const group = this.foregroundGroup();
    const isEarly = group === this.pid || this.isStartingProgram();
    const handlesSignal = handlesInterrupts(group);
    if (!this.signalForeground(signal)) this.type(Buffer.of(code));
    if (isEarly) return this.pid;
    // Without a handler, the signal normally ends the program and the whole command. If the command
    // continues with another program, the signal was lost, and the caller presses the key again.
    return handlesSignal ? undefined : group;
  }

  private async doKeysSendSignals(): Promise<boolean> {
    const terminal = linkOf(`/proc/${this.pid}/fd/255`);
    const { stdout } = await run("stty", ["-F", terminal, "-a"]).catch(() => ({ stdout: "" }));
    return !/(^|\s)-isig\b/.test(stdout);
  }

  /**
   * The process group in the foreground. While bash runs a builtin or waits for a command, this is
   * bash's own group.
   */
  foregroundGroup(): number {
    return Number(statOf(this.pid)?.[5] ?? -1);
  }

  /**
   * Whether the foreground process is still a fork of bash before its exec (or a subshell, which
   * looks the same).
   */
  isStartingProgram(): boolean {
    const group = this.foregroundGroup();
    if (group <= 1 || group === this.pid) return false;
    const [theirs, ours] = [procList(group, "cmdline"), procList(this.pid, "cmdline")];
    return theirs !== undefined && theirs.join("\0") === ours?.join("\0");
  }

  /** Whether fd 255 of bash is still the terminal. Commands get the terminal from this descriptor. */
  hasTerminal(): boolean {
    return linkOf(`/proc/${this.pid}/fd/255`).startsWith("/dev/");
  }

  /**
   * Whether bash reads its command FIFO. While bash runs a command, its fd 0 is the terminal.
   */
  isListening(): boolean {
    return linkOf(`/proc/${this.pid}/fd/0`) === this.commandFifo.path;
  }

  /** Signals the foreground process group; false if that failed. */
  signalForeground(name: NodeJS.Signals): boolean {
    const group = this.foregroundGroup();
    if (group <= 1) return false;
    try {
      process.kill(-group, name);
      return true;
    } catch {
      return false;
    }
  }

  kill(): void {
    if (!this.isAlive) return;
    try {
      process.kill(this.pid, "SIGKILL");
    } catch {
      // bash has ended already
    }
  }

  /**
   * Kills bash and the foreground process group. Bash is killed first. Otherwise bash would start
   * the next command of a list.
   */
  end(): void {
    const group = this.foregroundGroup();
    this.kill();
    if (group <= 1) return;
    try {
      process.kill(-group, "SIGKILL");
    } catch {
      // the group had no other process
    }
  }

  resize(columns: number, rows: number): void {
    if (this.isAlive) this.pty.resize(columns, rows);
  }

  directory(): string | undefined {
    try {
      return fs.readlinkSync(`/proc/${this.pid}/cwd`);
    } catch {
      return undefined;
    }
  }

  environment(): Record<string, string> | undefined {
    const pairs = procList(this.pid, "environ")?.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)] as const;
    });
    return pairs && Object.fromEntries(pairs);
  }

  /** Whether `exec` replaced bash by an interactive shell, not by a program or script. */
  isOtherShell(): boolean {
    const [program = "", ...words] = procList(this.pid, "cmdline") ?? [];
    if (this.hasCommandFifo()) return false;
    const name = path.basename(program).replace(/^-/, "");
    return (
      SHELL_NAMES.has(name) &&
      words.every((word) => word.startsWith("--") || (word.startsWith("-") && !word.includes("c")))
    );
  }

  private hasCommandFifo(): boolean {
    try {
      const open = fs.readdirSync(`/proc/${this.pid}/fd`);
      return open.some((fd) => linkOf(`/proc/${this.pid}/fd/${fd}`) === this.commandFifo.path);
    } catch {
      // Bash has ended, or /proc is not readable. Then we do not treat it as another shell.
      return true;
    }
  }
}

/** A FIFO between bash and the extension host, one per direction. */
class Fifo {
  readonly socket: net.Socket;
  private readonly descriptor: number;

  constructor(
    readonly path: string,
    modes: { readable: boolean; writable: boolean },
  ) {
    // O_RDWR: otherwise `open` would block until bash opens the FIFO, and either side could read
    // EOF between two lines.
    this.descriptor = fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_NONBLOCK);
    this.socket = new net.Socket({ fd: this.descriptor, ...modes });
    // Errors are ignored: the terminal reports the end of bash.
    this.socket.on("error", () => undefined);
  }

  /** Reads data that is still in the FIFO. */
  read(): Buffer | undefined {
    return readNow(this.descriptor);
  }

  close(): void {
    this.socket.destroy();
    fs.rmSync(this.path, { force: true });
  }
}

const scratch = Buffer.alloc(MAX_READ_BYTES);

/** Reads available data without blocking; undefined if there is none. */
function readNow(descriptor: number): Buffer | undefined {
  try {
    const size = fs.readSync(descriptor, scratch);
    return size ? Buffer.from(scratch.subarray(0, size)) : undefined;
  } catch {
    return undefined; // EAGAIN, or the other side is closed
  }
}

/** `/proc/PID/stat` from the state on: state, ppid, pgrp, session, tty, tpgid, … */
function statOf(pid: number): string[] | undefined {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

/** Whether the process ignores or catches SIGINT. */
function handlesInterrupts(pid: number): boolean {
  try {
    const status = fs.readFileSync(`/proc/${pid}/status`, "latin1");
    const masks = /^SigIgn:\s*(\w+)\nSigCgt:\s*(\w+)/m.exec(status);
    const bit = 1n << BigInt(os.constants.signals.SIGINT - 1);
    return masks?.slice(1).some((mask) => (BigInt(`0x${mask}`) & bit) !== 0n) ?? false;
  } catch {
    return false; // the process has ended
  }
}

function procList(pid: number, file: string): string[] | undefined {
  try {
    return fs.readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0").slice(0, -1);
  } catch {
    return undefined;
  }
}

function linkOf(file: string): string {
  try {
    return fs.readlinkSync(file);
  } catch {
    return "";
  }
}
