/** The parts that we use of the API of VS Code's git extension (`vscode.git`, version 1). */
import type * as vscode from "vscode";

export interface GitChange {
  readonly uri: vscode.Uri;
  readonly originalUri: vscode.Uri;
  readonly renameUri: vscode.Uri | undefined;
  /** An index of `CHANGES`. */
  readonly status: number;
}

export interface GitHead {
  readonly name?: string;
  readonly commit?: string;
  readonly upstream?: { readonly remote: string; readonly name: string };
  readonly ahead?: number;
  readonly behind?: number;
}

export interface GitRepository {
  readonly rootUri: vscode.Uri;
  readonly state: {
    readonly HEAD: GitHead | undefined;
    readonly indexChanges: readonly GitChange[];
    readonly workingTreeChanges: readonly GitChange[];
    readonly mergeChanges: readonly GitChange[];
    readonly untrackedChanges?: readonly GitChange[];
  };
  status(): Promise<void>;
  diff(cached: boolean): Promise<string>;
  add(paths: string[]): Promise<void>;
  /** Takes changes out of the index. */
  revert(paths: string[]): Promise<void>;
  commit(message: string): Promise<void>;
}

export interface GitApi {
  readonly state: "uninitialized" | "initialized";
  readonly onDidChangeState: vscode.Event<"uninitialized" | "initialized">;
  readonly repositories: readonly GitRepository[];
  getRepository(uri: vscode.Uri): GitRepository | null;
}

export interface GitExtension {
  readonly enabled: boolean;
  getAPI(version: 1): GitApi;
}

/** What happened to a file, by the numbers of the API. */
export const CHANGES = [
  ...["modified", "added", "deleted", "renamed", "copied"],
  ...["modified", "deleted", "untracked", "ignored", "added", "renamed", "type changed"],
  ...["added by us", "added by them", "deleted by us", "deleted by them"],
  ...["both added", "both deleted", "both modified"],
] as const;

export const UNTRACKED = 7;
