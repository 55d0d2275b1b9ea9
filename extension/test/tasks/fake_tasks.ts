/** Parts of VS Code's API for tasks and terminals, whose events a test sends. */
export class FakeEvent<T> {
  private readonly listeners = new Set<(event: T) => void>();

  readonly subscribe = (listener: (event: T) => void): { dispose: () => void } => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };

  send(event: T): void {
    for (const each of [...this.listeners]) each(event);
  }
}

/** An execution of a shell that prints what a test lets it print. */
export class FakeExecution {
  readonly commandLine = { value: "make" };
  readonly cwd = undefined;
  private readonly pieces = new FakeEvent<string>();

  async *read(): AsyncGenerator<string> {
    for (;;) yield await new Promise<string>((resolve) => void this.pieces.subscribe(resolve));
  }

  print(text: string): void {
    this.pieces.send(text);
  }
}
