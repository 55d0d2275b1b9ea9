/** Agents the user has admitted to this workspace, kept with it. */
import type * as vscode from "vscode";
import { Stored } from "../manifest";
import type { Admissions } from "./consent";

export class Admitted implements Admissions {
  constructor(private readonly state: vscode.Memento) {}

  has(agent: string): boolean {
    return this.all().includes(agent);
  }

  add(agent: string): void {
    void this.state.update(Stored.admitted, [...new Set([...this.all(), agent])]);
  }

  isStopped(): boolean {
    return this.state.get(Stored.stopped, false);
  }

  /** Every agent is asked about again, except where the settings allow what it does. */
  async forget(): Promise<void> {
    await this.state.update(Stored.admitted, undefined);
  }

  /** Every agent is asked about again, whatever the settings allow. */
  async stop(): Promise<void> {
    await this.state.update(Stored.stopped, true);
    await this.forget();
  }

  /** What the settings allow is done again without a question. */
  async followSettings(): Promise<void> {
    await this.state.update(Stored.stopped, undefined);
  }

  private all(): string[] {
    return this.state.get<string[]>(Stored.admitted, []);
  }
}
