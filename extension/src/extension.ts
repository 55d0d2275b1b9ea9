/**
 * Activation: builds the parts, registers commands and views, and connects to the hub if the
 * settings ask for it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import * as path from "node:path";
import * as vscode from "vscode";
import { AdmittedAgents } from "./actions/admitted_agents";
import { Documents } from "./actions/documents";
import { findRipgrep } from "./actions/search";
import { StartedByAgents } from "./actions/started_by_agents";
import { VIRTUAL_SCHEME, VirtualDocuments } from "./actions/virtual_documents";
import { buildBridge } from "./bridge";
import {
  buildBrowser,
  buildExecutor,
  buildKernels,
  buildPathResolver,
  buildRuleSources,
  buildShells,
  roots,
} from "./build";
import { buildReview, type Review } from "./changes";
import { buildCheckpoints } from "./checkpoints";
import { messageOf } from "./common/failure";
import type { Log } from "./common/log";
import { isAlive } from "./common/process_alive";
import { sweepTemporary } from "./common/temporary_directories";
import { Questions } from "./consent/questions";
import { buildDebugger } from "./debug";
import type { WindowIdentity } from "./hub/messages";
import { ActionRunner } from "./hub/action_runner";
import { identify, readIdentity } from "./hub/identity";
import { Journal, removeOldJournals } from "./hub/journal";
import { CommandId, StorageKey, ViewId } from "./manifest";
import { McpServerProvider, type McpTarget } from "./mcp";
import { buildNets } from "./nets";
import { HubClient } from "./hub_client";
import { removeOldReviews } from "./review/review_store";
import { StopCommand } from "./stop_command";
import { setting, watchSettings } from "./settings";
import { endProcesses } from "./terminal/processes";
import { ActivityView } from "./views/activity";
import { watchKeystrokes } from "./views/keystrokes";
import { QuestionsView } from "./views/questions";
import { RefusalNotices } from "./views/refusal_notices";
import { RulesList } from "./views/rules_list";
import { ChangeHighlighter } from "./views/change_highlighter";
import { StatusBar } from "./views/status_bar";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("Bascule", { log: true });
  context.subscriptions.push(
    log,
    vscode.commands.registerCommand(CommandId.showLog, () => log.show()),
  );
  try {
    await start(context, log);
  } catch (error) {
    log.error(error instanceof Error ? error : String(error));
    const show = "Show Log";
    void vscode.window
      .showErrorMessage(`Bascule could not start: ${messageOf(error)}`, show)
      .then((answer) => answer === show && log.show());
  }
}

async function start(context: vscode.ExtensionContext, log: Log): Promise<void> {
  const { subscriptions } = context;
  subscriptions.push(watchSettings());
  const keystrokes = setting("keystrokeFile");
  if (keystrokes) subscriptions.push(watchKeystrokes(keystrokes, log));
  const identity = await windowIdentity(context);
  const key = `${identity.window_id}.${identity.host_id}.${process.pid}`;
  const acting = new AsyncLocalStorage<string>();
  const documents = new Documents((change) => {
    review.agentWrote(acting.getStore() ?? "an agent", change);
    activity.fileChanged(change);
    if (setting("reveal")) highlighter.show(change);
  });
  // Before other parts, because editors that VS Code restores ask for the bases.
  const review: Review = buildReview({
    directory: stateDirectory(context, "review", identity.window_id),
    roots,
    ripgrep: findRipgrep(vscode.env.appRoot),
    isOn: () => setting("review"),
    turn: (file, work) => documents.withLock({ real: file, displayPath: file }, work),
    log,
  });
  subscriptions.push(review);
  const swept = endProcesses((value) => isLeftBehind(value, identity.window_id));
  if (swept) log.info(`ended ${swept} processes left by an earlier extension host of this window`);
  const removed = sweepTemporary();
  if (removed) log.info(`removed ${removed} temporary directories left by earlier extension hosts`);

  const virtualDocuments = new VirtualDocuments();
  const activity = new ActivityView(virtualDocuments);
  const highlighter = new ChangeHighlighter(log);
  const status = new StatusBar();
  const shells = buildShells(key, log);
  const resolver = buildPathResolver(shells);
  const rules = buildRuleSources(log);
  const questions = new Questions((error) => log.error("a listener failed", error));
  const admitted = new AdmittedAgents(context.workspaceState);
  const refusals = new RefusalNotices();
  const started = new StartedByAgents();
  const nets = buildNets(context, log);
  const bridge = buildBridge({
    context,
    log,
    addText: (name, text) => virtualDocuments.add(name, text),
    follow: (net) => nets.live.follow(net),
    questions,
    real: (file) => resolver.real(file),
  });
  const browser = buildBrowser(key, () => hubClient.current?.hub ?? "", log);
  const storage = (context.storageUri ?? context.globalStorageUri).fsPath;
  const journal = stateDirectory(context, "journals", identity.window_id);
  const { kernels, notebooks } = buildKernels(context, shells, storage, log);
  const checkpoints = buildCheckpoints({ context, roots, documents, log });
  const executor = buildExecutor({
    context,
    browser,
    shells,
    kernels,
    virtualDocuments,
    bridge: bridge.hubRequests,
    resolver,
    questions,
    admitted,
    rules,
    started,
    onRefused: (action, why) => refusals.notify(action, why),
    log,
    connection: () => hubClient.current,
    documents,
    acting,
    review,
    checkpoints,
  });
  const runner = new ActionRunner(
    new Journal(journal, identity.host_id),
    executor,
    {
      began: (action) => {
        activity.began(action);
        status.running(activity.running);
      },
      ended: (action, observation) => {
        activity.ended(action, observation);
        status.running(activity.running);
      },
    },
    log,
  );
  const hubClient = new HubClient(
    context,
    identity,
    runner,
    review.merges,
    review.hub,
    () => executor.capabilities,
    (state) => {
      status.connection(state);
      mcp.refresh();
    },
    log,
  );
  subscriptions.push(review.hub.onChanged.listen(() => hubClient.current?.reviewChanged()));
  const mcp = new McpServerProvider(context, () => mcpTarget(hubClient, identity));

  subscriptions.push(
    kernels,
    notebooks,
    shells,
    nets,
    buildDebugger(nets.live, log),
    bridge,
    showTexts(virtualDocuments),
    activity,
    highlighter,
    status,
    started,
    new QuestionsView(questions, (count) => status.questions(count)),
    runner,
    hubClient,
    mcp,
  );
  const command = (id: string, run: (...args: never[]) => unknown): void => {
    subscriptions.push(vscode.commands.registerCommand(id, run));
  };
  command(CommandId.connect, () => hubClient.connectByHand());
  command(CommandId.disconnect, () => hubClient.disconnectByHand());
  const stopCommand = new StopCommand({
    admitted,
    runner,
    shells,
    kernels,
    started,
    browser,
    forgetGrants: () => {
      bridge.forgetGrants();
      executor.forgetGrants();
    },
  });
  command(CommandId.stop, () => stopCommand.stop());
  command(CommandId.forgetConsent, async () => {
    await admitted.forget();
    void vscode.window.showInformationMessage(
      "Bascule: the permissions of all agents in this workspace were revoked. The setting bascule.consent still applies.",
    );
  });
  command(CommandId.followSettings, async () => {
    await admitted.followSettings();
    void vscode.window.showInformationMessage(
      "Bascule: the setting bascule.consent applies again.",
    );
  });
  command(CommandId.showRules, () => new RulesList(rules).show());
  command(CommandId.showActivity, () => vscode.commands.executeCommand(`${ViewId.activity}.focus`));
  command(CommandId.openEntry, (entry: Parameters<ActivityView["open"]>[0]) =>
    activity.open(entry),
  );
  command(CommandId.clearActivity, () => activity.clear());
  subscriptions.push(
    vscode.window.registerUriHandler({ handleUri: (uri) => hubClient.openLink(uri) }),
  );
  void browser.then((worker) => worker && subscriptions.push(worker));
  await hubClient.connectBySettings();
  if (await executor.settle()) hubClient.capabilitiesChanged();
}

/**
 * A directory that all extension hosts of a window share. VS Code's workspace storage is not
 * shared: while one host is alive, the next host (another tab, or a tab opened after a crash) gets
 * another directory. With `bascule.identityFile` it is beside that file, because the window is then
 * the same on every server that shows it.
 */
function stateDirectory(
  context: vscode.ExtensionContext,
  kind: "journals" | "review",
  windowId: string,
): string {
  const given = setting("identityFile");
  if (given) return path.join(path.dirname(given), kind === "journals" ? "journal" : kind);
  const all = path.join(context.globalStorageUri.fsPath, kind);
  if (kind === "journals") removeOldJournals(all, windowId);
  else removeOldReviews(all, windowId);
  return path.join(all, windowId);
}

/** The identity from `bascule.identityFile`, or the one that VS Code stores. */
async function windowIdentity(context: vscode.ExtensionContext): Promise<WindowIdentity> {
  const file = setting("identityFile");
  if (file) return readIdentity(file);
  return identify(
    {
      get: (name) => Promise.resolve(context.workspaceState.get(name)),
      set: async (name, value) => context.workspaceState.update(name, value),
    },
    {
      get: async (name) => context.secrets.get(name),
      set: async (name, value) => context.secrets.store(name, value),
    },
    { id: StorageKey.windowId, key: StorageKey.windowKey },
  );
}

/** Undefined in the window of a cloud session, from which the hub refuses requests to /mcp. */
function mcpTarget(hubClient: HubClient, identity: WindowIdentity): ReturnType<McpTarget> {
  const hub = hubClient.current?.hub;
  if (!hub || setting("identityFile")) return undefined;
  return { hub, windowId: identity.window_id };
}

function showTexts(virtualDocuments: VirtualDocuments): vscode.Disposable {
  return vscode.workspace.registerTextDocumentContentProvider(VIRTUAL_SCHEME, virtualDocuments);
}

/** Whether a process mark belongs to this window and to an extension host that has ended. */
function isLeftBehind(value: string, windowId: string): boolean {
  const [window, , pid] = value.split(".");
  return window === windowId && !isAlive(Number(pid));
}
