/** Finds the commands that VS Code's command `runCommands` would run. */

/** The command and, for `runCommands`, all commands in its arguments at any depth. */
export function commandsRunBy(command: string, args: readonly unknown[]): string[] {
  return command === "runCommands" ? [command, ...args.flatMap(nested)] : [command];
}

/** Arguments of `runCommands` are `{commands: […]}`; each is a name or `{command, args}`. */
function nested(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(nested);
  if (typeof value !== "object" || value === null) return [];
  const { command, args, commands } = value as Record<string, unknown>;
  const own = typeof command === "string" ? commandsRunBy(command, [args]) : [];
  return [...own, ...nested(commands)];
}
