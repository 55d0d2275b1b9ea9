/** Which actions run programs other than by a command of a shell. They need the consent to run. */
import { runsInDebugger } from "./debugger_programs";

const RUNNING_ACTIONS = new Set(["list_tests", "run_tests"]);
/** Kinds that need the consent to a second kind too, because they can do all that it can. */
const SECOND_CONSENTS: Readonly<Record<string, string>> = {
  git_commit: "run", // for the hooks of the repository
  run_cells: "run_ipython",
};

/** Tasks have a consent of their own: a permission for commands does not cover them. */
export function runsTask({ action }: { readonly action: string }): boolean {
  return action === "run_task";
}

export function runsProgram(action: { readonly action: string; readonly args: object }): boolean {
  return RUNNING_ACTIONS.has(action.action) || runsInDebugger(action);
}

/** Hooks run files that are not protected, such as scripts that `package.json` names. */
export function runsHooks({ action }: { readonly action: string }): boolean {
  return action === "git_commit";
}

/** The kind whose consent the action needs besides that of its own kind. */
export function secondConsent({ action }: { readonly action: string }): string | undefined {
  return SECOND_CONSENTS[action];
}
