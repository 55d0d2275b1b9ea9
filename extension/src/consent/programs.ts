/** Which actions run programs other than by a command of a shell. They need the consent to run. */
import { runsInDebugger } from "./debugger_programs";

const RUNNING_ACTIONS = new Set(["list_tests", "run_tests"]);

/** Tasks have a consent of their own: a permission for commands does not cover them. */
export function runsTask({ action }: { readonly action: string }): boolean {
  return action === "run_task";
}

export function runsProgram(action: { readonly action: string; readonly args: object }): boolean {
  return RUNNING_ACTIONS.has(action.action) || runsInDebugger(action);
}
