/**
 * Merges of forks into a folder of this window. The review shows changes of a merge as changes that
 * the fork made.
 */
import type { AgentCommands } from "./agent_commands";

export interface MergeBegan {
  id: string;
  /** Name of the fork, shown where the review shows an agent's name. */
  agent: string;
  /** The folder that gets the changes. Missing in the session's own window. */
  folder?: FolderIdentity;
}

/** Identifies a folder of this machine. Its path may differ from window to window. */
export interface FolderIdentity {
  device: string;
  inode: string;
}

export interface MergesParts {
  commands: AgentCommands;
  isOn: () => boolean;
  /** Whether this window has the folder. */
  has: (folder: FolderIdentity) => boolean;
  /** Reads the files, so that the review knows their content before the merge. */
  prepare: () => Promise<void>;
}

export class Merges {
  private readonly open = new Set<string>();

  constructor(private readonly parts: MergesParts) {}

  async began({ id, agent, folder }: MergeBegan): Promise<void> {
    const { commands, isOn, has, prepare } = this.parts;
    if (!isOn() || (folder && !has(folder))) return;
    this.open.add(id);
    await prepare();
    if (this.open.has(id)) commands.began(id, agent); // the merge may have ended meanwhile
  }

  ended(id: string): void {
    if (this.open.delete(id)) this.parts.commands.ended(id);
  }

  /** The connection was lost, so the hub cannot report the end of the open merges. */
  lost(): void {
    for (const id of [...this.open]) this.ended(id);
  }
}
