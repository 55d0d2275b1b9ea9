// How the list of pending changes is grouped and described.
import type { ReviewFile } from "../hub/types";

/** The files of each agent, agents in order. A file that two agents changed is listed twice. */
export function byAgent(files: readonly ReviewFile[]): [string, ReviewFile[]][] {
  const agentsOf = ({ agents }: ReviewFile): string[] => (agents.length ? agents : ["an agent"]);
  const agents = [...new Set(files.flatMap(agentsOf))].sort();
  return agents.map((agent) => [agent, files.filter((file) => agentsOf(file).includes(agent))]);
}

/** `created, 2 changes, +10 −3` */
export function countText({ change, hunks, added, removed }: ReviewFile): string {
  const lines = `+${added} −${removed}`;
  if (change === "removed") return `deleted, ${lines}`;
  const count = `${hunks} ${hunks === 1 ? "change" : "changes"}`;
  return `${change === "created" ? "created, " : ""}${count}, ${lines}`;
}

/** `2 files, 5 changes, +10 −3` */
export function filesText(files: readonly ReviewFile[]): string {
  const sum = (valueOf: (file: ReviewFile) => number): number =>
    files.reduce((total, file) => total + valueOf(file), 0);
  const [hunks, count] = [sum((file) => file.hunks), files.length];
  return [
    `${count} ${count === 1 ? "file" : "files"}`,
    `${hunks} ${hunks === 1 ? "change" : "changes"}`,
    `+${sum((file) => file.added)} −${sum((file) => file.removed)}`,
  ].join(", ");
}
