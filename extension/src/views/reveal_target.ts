/**
 * Decides where a file that an agent has changed is shown.
 *
 * VS Code shows all files of a group in one editor widget. If another file is shown in the group
 * that has the focus, the user's next keys go to that file, also with `preserveFocus`. So nothing
 * is shown over an editor in the active group.
 */

/** A group of editors of the window, in the order of their columns. */
export interface EditorGroup {
  isActive: boolean;
  tabCount: number;
  /** The visible editor of the group has unsaved changes. */
  isDirty: boolean;
}

/** Where to show the file; undefined if it must not be shown now. */
export function revealTarget(groups: readonly EditorGroup[]): "active" | "beside" | undefined {
  const at = groups.findIndex((group) => group.isActive);
  const active = groups[at];
  if (!active?.tabCount) return "active";
  if (active.isDirty) return undefined;
  // Beside the last of several groups VS Code would add one more each time.
  return groups.length === 1 || at < groups.length - 1 ? "beside" : undefined;
}
