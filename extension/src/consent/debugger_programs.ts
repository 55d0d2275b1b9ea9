/** Which actions run code in the debugger. They need the same consent as commands. */

const RUNNING_ACTIONS = new Set(["debug_start", "debug_evaluate", "debug_set_variable"]);
/** Parts of a breakpoint that the debugger evaluates. */
const CODE_KEYS = ["condition", "hit_condition", "log_message"];

export function runsInDebugger({
  action,
  args,
}: {
  readonly action: string;
  readonly args: object;
}): boolean {
  const { restart, add } = args as { restart?: boolean; add?: readonly object[] };
  if (action === "debug_stop") return restart === true;
  if (action === "set_breakpoints")
    return (add ?? []).some((each) => CODE_KEYS.some((name) => name in each));
  return RUNNING_ACTIONS.has(action);
}
