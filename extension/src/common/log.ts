/** Where the extension writes what it does; VS Code's log channel has this shape. */
export interface Log {
  debug(message: string, ...rest: unknown[]): void;
  info(message: string, ...rest: unknown[]): void;
  warn(message: string, ...rest: unknown[]): void;
  error(message: string | Error, ...rest: unknown[]): void;
}
