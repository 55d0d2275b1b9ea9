/** Agents that the user has admitted to this workspace. Stored in the workspace state. */
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

  /** Revokes all admissions. The settings still apply. */
  async forget(): Promise<void> {
    await this.state.update(StorageKey.admitted, undefined);
  }

  /** Revokes all admissions and suspends `allow` rules of the settings. */
  async stop(): Promise<void> {
    await this.state.update(StorageKey.stopped, true);
    await this.forget();
  }

  /** Applies the `allow` rules of the settings again. */
  async followSettings(): Promise<void> {
    await this.state.update(StorageKey.stopped, undefined);
  }

  private all(): string[] {
    return this.state.get<string[]>(StorageKey.admitted, []);
  }
}
