/** The changes of a repository as items and as text. */
import * as path from "node:path";
import { CHANGES, UNTRACKED, type GitChange, type GitRepository } from "./git_api";

export type ChangeGroup = "staged" | "changed" | "untracked" | "conflict";

export interface ChangeItem {
  [name: string]: unknown;
  path: string;
  group: ChangeGroup;
  change: string;
  old_path: string | null;
}

export function changesOf({ state }: Pick<GitRepository, "state">): ChangeItem[] {
  const of = (changes: readonly GitChange[], group: ChangeGroup): ChangeItem[] =>
    changes.map((each) => ({
      path: (each.renameUri ?? each.uri).fsPath,
      group: each.status === UNTRACKED ? "untracked" : group,
      change: CHANGES[each.status] ?? "changed",
      old_path: each.renameUri ? each.originalUri.fsPath : null,
    }));
  const all = [
    ...of(state.mergeChanges, "conflict"),
    ...of(state.indexChanges, "staged"),
    ...of(state.workingTreeChanges, "changed"),
    ...of(state.untrackedChanges ?? [], "untracked"),
  ];
  return GROUPS.flatMap((group) => all.filter((each) => each.group === group));
}

const GROUPS: readonly ChangeGroup[] = ["conflict", "staged", "changed", "untracked"];

/** The branch, and a line for each change, with paths relative to the repository. */
export function statusText(
  { rootUri, state: { HEAD: head } }: Pick<GitRepository, "rootUri" | "state">,
  items: readonly ChangeItem[],
): string {
  const upstream = head?.upstream && `${head.upstream.remote}/${head.upstream.name}`;
  const apart = [
    ...(head?.ahead ? [`${head.ahead} ahead of ${upstream ?? "its upstream"}`] : []),
    ...(head?.behind ? [`${head.behind} behind ${upstream ?? "its upstream"}`] : []),
  ];
  const where = [
    head?.name ? `On branch ${head.name}` : "No branch is checked out",
    head?.commit ? `at ${head.commit.slice(0, 10)}` : "without a commit",
    ...apart,
    `in ${rootUri.fsPath}`,
  ].join(", ");
  const short = (file: string): string => path.relative(rootUri.fsPath, file);
  const lines = items.map(({ path: file, group, change, old_path: old }) => {
    const how = group === "untracked" ? "" : ` (${change}${old ? ` from ${short(old)}` : ""})`;
    return `${group}: ${short(file)}${how}`;
  });
  return [where, ...(lines.length ? lines : ["No changes"])].join("\n");
}
