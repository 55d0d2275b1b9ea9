/** Shows a shell to the user as a terminal that they can read, type into and close. */
import * as vscode from "vscode";
import { OutputThrottle } from "./output_throttle";
import type { BashShell, TerminalEvent } from "./shell";
import type { ShellRequest } from "./shells";

/** Milliseconds for which output is batched: every write costs a message and a redraw. */
const BATCH_MS = 50;
const PROMPT = "\x1b[32m$\x1b[0m ";

/** Opens a terminal for a shell. */
export function showShell(shell: BashShell, { agent, name: given, onClosed }: ShellRequest): void {
  const name = given === "main" ? agent : `${agent} · ${given}`;
  const pty = new ShellTerminal(agent, shell, onClosed);
  vscode.window.createTerminal({ name, pty, isTransient: true }).show(true);
}

/**
 * The pseudoterminal of a shell. Keys go to the running program. If no program runs, the keys
 * edit a command line, which runs as the user's command; agents wait until that command ends.
 */
class ShellTerminal implements vscode.Pseudoterminal {
  private readonly writing = new vscode.EventEmitter<string>();
  private readonly closing = new vscode.EventEmitter<number | undefined>();
  private readonly decoder = new TextDecoder();
  private readonly throttle = new OutputThrottle((data) =>
    this.write(this.withReturns(this.decoder.decode(data, { stream: true }))),
  );
  private readonly listening;
  private isOpen = false;
  private unwritten = "";
  private batchTimer: NodeJS.Timeout | undefined;
  private line = "";
  private afterReturn = false;
  private atLineStart = true;

  readonly onDidWrite = this.writing.event;
  readonly onDidClose = this.closing.event;

  constructor(
    agent: string,
    private readonly shell: BashShell,
    private readonly onClosed: () => void,
  ) {
    this.listening = shell.onShown.listen((what) => this.show(what));
    this.write(`\x1b[2m${agent} works in this terminal. You may type into it.\x1b[0m\r\n${PROMPT}`);
  }

  open(size: vscode.TerminalDimensions | undefined): void {
    this.isOpen = true;
    this.flush();
    if (size) this.setDimensions(size);
  }

  setDimensions(size: vscode.TerminalDimensions): void {
    this.shell.resize(size.columns, size.rows);
  }

  handleInput(data: string): void {
    if (this.shell.typeAsUser(data)) return;
    for (const char of data) this.edit(char);
    this.flush(); // echo typed text at once
  }

  close(): void {
    this.listening.dispose();
    clearTimeout(this.batchTimer);
    this.onClosed();
  }

  private edit(char: string): void {
    if (char === "\r") {
      const command = this.line;
      this.line = "";
      this.write("\r\n");
      if (command.trim()) void this.run(command);
      else this.write(PROMPT);
    } else if (char === "\x7f") {
      if (!this.line) return;
      this.line = Array.from(this.line).slice(0, -1).join("");
      this.write("\b \b");
    } else if (char === "\x03") {
      this.line = "";
      this.write(`^C\r\n${PROMPT}`);
    } else if (char >= " ") {
      this.line += char;
      this.write(char);
    }
  }

  private async run(command: string): Promise<void> {
    try {
      await this.shell.run({ command, queue: true }, undefined, "user");
    } catch (error) {
      this.write(`${String(error)}\r\n${PROMPT}`);
    }
  }

  private show(what: TerminalEvent): void {
    if (what.is === "command") {
      if (what.who === "agent") this.write(`${what.text.replaceAll("\n", "\r\n")}\r\n`);
    } else if (what.is === "output") {
      this.throttle.add(what.data);
    } else if (what.is === "closed") {
      this.closing.fire(undefined); // the shell is closed
    } else {
      this.throttle.flush();
      const status = what.status ? `\x1b[2m[${what.status}]\x1b[0m ` : "";
      this.write(`${this.atLineStart ? "" : "\r\n"}${status}${PROMPT}${this.line}`);
    }
  }

  /** Converts LF to CR LF for the screen, because the PTY does not change output (`-opost`). */
  private withReturns(text: string): string {
    const shown = (this.afterReturn ? "\r" : "") + text;
    const returned = shown.replace(/\r?\n/g, "\r\n");
    this.afterReturn = text.endsWith("\r");
    return this.afterReturn ? returned.slice(0, -1) : returned;
  }

  private write(text: string): void {
    if (!text) return;
    this.atLineStart = text.endsWith("\n");
    this.unwritten += text;
    if (this.isOpen) this.batchTimer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  private flush(): void {
    clearTimeout(this.batchTimer);
    this.batchTimer = undefined;
    const text = this.unwritten;
    this.unwritten = "";
    if (text) this.writing.fire(text);
  }
}
