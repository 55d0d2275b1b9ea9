/** Variables by which VS Code would run a command for a launch configuration of an agent. */

/**
 * VS Code runs a command for `command` and `input`. It also looks for variables in the values of
 * variables, and the agent chooses those of the active editor: its files may have any name and text.
 */
const RUNNING_VARIABLE = /\$\{(?:command:|input:|file|relativeFile|selectedText)[^}"]*\}?/;

/** The first such variable in the configuration, at any depth and also in keys. */
export function runningVariable(
  configuration: Readonly<Record<string, unknown>>,
): string | undefined {
  return RUNNING_VARIABLE.exec(JSON.stringify(configuration))?.[0];
}
