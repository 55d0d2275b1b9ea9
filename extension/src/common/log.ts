/** The extension's log. Same shape as VS Code's `LogOutputChannel`. */
export interface Log {
  debug(message: string, ...rest: unknown[]): void;
  info(message: string, ...rest: unknown[]): void;
  warn(message: string, ...rest: unknown[]): void;
  error(message: string | Error, ...rest: unknown[]): void;
}
