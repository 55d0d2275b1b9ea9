/** Agents the user has admitted to this workspace, kept with it. */
import type * as vscode from "vscode";
import { StorageKey } from "../manifest";
import type { Admissions } from "./consent";

export class AdmittedAgents implements Admissions {
  constructor(private readonly state: vscode.Memento) {}

  has(agent: string): boolean {
    return this.all().includes(agent);
  }

  add(agent: string): void {
    void this.state.update(StorageKey.admitted, [...new Set([...this.all(), agent])]);
  }

  isStopped(): boolean {
    return this.state.get(StorageKey.stopped, false);
  }

  /** Every agent is asked about again, except where the settings allow what it does. */
  async forget(): Promise<void> {
    await this.state.update(StorageKey.admitted, undefined);
  }

  /** Every agent is asked about again, whatever the settings allow. */
  async stop(): Promise<void> {
    await this.state.update(StorageKey.stopped, true);
    await this.forget();
  }

  /** What the settings allow is done again without a question. */
  async followSettings(): Promise<void> {
    await this.state.update(StorageKey.stopped, undefined);
  }

  private all(): string[] {
    return this.state.get<string[]>(StorageKey.admitted, []);
  }
}
