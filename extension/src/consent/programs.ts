/** Which actions run programs other than by a command of a shell. They need the consent to run. */
import { runsInDebugger } from "./debugger_programs";

const RUNNING_ACTIONS = new Set(["list_tests", "run_tests"]);

export function runsProgram(action: { readonly action: string; readonly args: object }): boolean {
  return RUNNING_ACTIONS.has(action.action) || runsInDebugger(action);
}
