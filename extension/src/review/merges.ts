/** Merges of forks into a folder of this window: what they change counts as the fork's. */
import type { AgentCommands } from "./agent_commands";

export interface MergeBegan {
  id: string;
  /** The fork, as an agent is named. */
  agent: string;
  /** Only for windows that are not the session's own: the folder that gets the changes. */
  folder?: FolderIdentity;
}

/** Identifies a folder of this machine, whatever its path is here. */
export interface FolderIdentity {
  device: string;
  inode: string;
}

export interface MergesParts {
  commands: AgentCommands;
  isOn: () => boolean;
  /** Whether a folder of this window is that one. */
  has: (folder: FolderIdentity) => boolean;
  /** Makes the files known as they are before the merge. */
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
    if (this.open.has(id)) commands.began(id, agent); // the hub may have stopped waiting
  }

  ended(id: string): void {
    if (this.open.delete(id)) this.parts.commands.ended(id);
  }

  /** The connection was lost, so nobody would say when they end. */
  lost(): void {
    for (const id of [...this.open]) this.ended(id);
  }
}
