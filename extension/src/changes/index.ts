/** The review of what agents changed: builds its parts and shows them. */
import { statSync } from "node:fs";
import * as vscode from "vscode";
import type { FileChange } from "../actions/documents";
import type { ActionReview } from "../actions/executor";
import { Disposables, type Disposable } from "../common/disposables";
import type { Log } from "../common/log";
import { BASE_SCHEME } from "../manifest";
import { AgentCommands, CHANGES_FILES } from "../review/agent_commands";
import { Merges, type FolderIdentity } from "../review/merges";
import { ReviewStore } from "../review/review_store";
import { TakenBack } from "../review/taken_back";
import { HubReview } from "./hub_review";
import { HunkLenses } from "./hunk_lenses";
import { PendingChanges } from "./pending_changes";
import { registerReviewCommands } from "./review_commands";
import { nameOf, Reviewer, type FileTurn } from "./reviewer";
import { baseUri, SourceControls } from "./source_controls";
import { WorkspaceTexts } from "./workspace_texts";

/** Milliseconds between a change and the update of what is shown. */
const REFRESH_MS = 30;
/** Milliseconds that a merge waits until the files were read; the hub waits a little longer. */
const MERGE_READ_MS = 10_000;
/** Context key of the key bindings. */
const HAS_CHANGES = "bascule.hasAgentChanges";

export interface ReviewParts {
  /** Where pending changes are stored. */
  directory: string;
  roots: () => string[];
  ripgrep: string | undefined;
  isOn: () => boolean;
  turn: FileTurn;
  log: Log;
}

/** What the rest of the extension reports to the review. */
export interface Review extends ActionReview, Disposable {
  agentWrote(agent: string, change: FileChange): void;
  readonly merges: Merges;
  /** The same list for the hub's page. */
  readonly hub: HubReview;
}

export function buildReview(parts: ReviewParts): Review {
  const { log, isOn } = parts;
  const commands = new AgentCommands();
  const takenBack = new TakenBack();
  const disposables = new Disposables();
  const store = new ReviewStore(parts.directory);
  const changes: PendingChanges = disposables.add(
    new PendingChanges({ store, commands, texts: () => texts, isOn, log }),
  );
  const texts: WorkspaceTexts = disposables.add(
    new WorkspaceTexts(parts.roots, parts.ripgrep, (change) => changes.diskChanged(change), log),
  );
  changes.restore();
  const reviewer = new Reviewer(changes, takenBack, parts.turn);
  const hub = disposables.add(new HubReview(changes, reviewer, nameOf, log));
  disposables.add(showChanges(changes, () => hub.changed()));
  disposables.add(registerReviewCommands(changes, reviewer));
  const merges = new Merges({
    commands,
    isOn,
    has: (folder) => parts.roots().some((root) => isFolder(root, folder)),
    prepare: () => texts.start(MERGE_READ_MS),
  });
  return {
    merges,
    hub,
    agentWrote: (agent, change) => changes.agentWrote(agent, change),
    prepare: async (kind) => {
      if (isOn() && CHANGES_FILES.has(kind)) await texts.start();
    },
    began: (id, kind, agent) => {
      if (isOn() && CHANGES_FILES.has(kind)) commands.began(id, agent);
    },
    ended: (id, extras) => {
      const { shell, state } = (extras.metadata ?? {}) as { shell?: string; state?: string };
      commands.ended(id, shell, state);
    },
    noteFor: (agent) => takenBack.takeNote(agent),
    dispose: () => disposables.dispose(),
  };
}

function isFolder(root: string, { device, inode }: FolderIdentity): boolean {
  const found = statSync(root, { bigint: true, throwIfNoEntry: false });
  return String(found?.dev) === device && String(found?.ino) === inode;
}

/**
 * Serves the bases, and updates the gutter, the lines above changes and Source Control. Calls
 * `onRefresh` after each update.
 */
function showChanges(changes: PendingChanges, onRefresh: () => void): Disposable {
  const disposables = new Disposables();
  const bases = disposables.add(new vscode.EventEmitter<vscode.Uri>());
  const lenses = disposables.add(new vscode.EventEmitter<void>());
  const controls = disposables.add(new SourceControls(changes));
  const moved = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const refresh = (): void => {
    timer = undefined;
    const paths = [...moved];
    moved.clear();
    for (const path of paths) bases.fire(baseUri(path));
    controls.refresh();
    lenses.fire();
    void vscode.commands.executeCommand("setContext", HAS_CHANGES, changes.pending.length > 0);
    onRefresh();
  };
  const later = (): void => {
    timer ??= setTimeout(refresh, REFRESH_MS);
  };
  disposables.add({ dispose: () => clearTimeout(timer) });
  disposables.add(
    vscode.workspace.registerTextDocumentContentProvider(BASE_SCHEME, {
      onDidChange: bases.event,
      provideTextDocumentContent: ({ fsPath }) => changes.baseOf(fsPath),
    }),
  );
  disposables.add(
    vscode.languages.registerCodeLensProvider(
      { scheme: "file" },
      new HunkLenses(changes, lenses.event),
    ),
  );
  disposables.add(
    changes.onDidChange(({ path }) => {
      moved.add(path);
      later();
    }),
  );
  disposables.add(
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("bascule.review")) later();
    }),
  );
  refresh();
  return disposables;
}
