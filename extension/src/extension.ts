/** Activation: builds the parts, registers commands and views, and connects if the settings say so. */
import * as path from "node:path";
import * as vscode from "vscode";
import { Admitted } from "./actions/admitted_agents";
import { StartedByAgents } from "./actions/started_by_agents";
import { SCHEME, Texts } from "./actions/virtual_documents";
import { buildBridge } from "./bridge";
import { buildBrowser, buildExecutor, buildKernels, buildPlaces, buildShells } from "./build";
import { messageOf } from "./common/failure";
import type { Log } from "./common/log";
import { sweepTemporary } from "./common/temporary_directories";
import { Questions } from "./consent/questions";
import { buildDebugger } from "./debug";
import type { WindowIdentity } from "./hub/messages";
import { Courier } from "./hub/action_runner";
import { identify, readIdentity } from "./hub/identity";
import { Journal } from "./hub/journal";
import { Command, Stored, View } from "./manifest";
import { McpOffer, type Hub } from "./mcp";
import { buildNets } from "./nets";
import { Session } from "./hub_client";
import { Stopping } from "./stop_command";
import { setting, watchSettings } from "./settings";
import { endProcesses } from "./terminal/processes";
import { Activity } from "./views/activity";
import { noteKeystrokes } from "./views/keystrokes";
import { QuestionsView } from "./views/questions";
import { Refusals } from "./views/refusal_notices";
import { Spotlight } from "./views/change_highlighter";
import { Status } from "./views/status_bar";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("Bascule", { log: true });
  context.subscriptions.push(
    log,
    vscode.commands.registerCommand(Command.showLog, () => log.show()),
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
  if (keystrokes) subscriptions.push(noteKeystrokes(keystrokes, log));
  const identity = await whoWeAre(context);
  const key = `${identity.window_id}.${identity.host_id}.${process.pid}`;
  const swept = endProcesses((value) => isLeftBehind(value, identity.window_id));
  if (swept) log.info(`ended ${swept} processes that an earlier host of this window left behind`);
  const removed = sweepTemporary();
  if (removed) log.info(`removed ${removed} directories that earlier hosts left behind`);

  const texts = new Texts();
  const activity = new Activity(texts);
  const spotlight = new Spotlight(log);
  const status = new Status();
  const shells = buildShells(key, log);
  const places = buildPlaces(shells);
  const questions = new Questions((error) => log.error("a listener failed", error));
  const admitted = new Admitted(context.workspaceState);
  const refusals = new Refusals();
  const started = new StartedByAgents();
  const nets = buildNets(context, log);
  const bridge = buildBridge({
    context,
    log,
    addText: (name, text) => texts.add(name, text),
    follow: (net) => nets.live.follow(net),
    questions,
    real: (file) => places.real(file),
  });
  const browser = buildBrowser(key, () => session.current?.hub ?? "", log);
  const storage = (context.storageUri ?? context.globalStorageUri).fsPath;
  // A window that was given its identity is the same in every browser that shows it, and VS Code's
  // storage is not: it goes by the address. What was done in one must be known in the others.
  const given = setting("identityFile");
  const journal = path.join(given ? path.dirname(given) : storage, "journal");
  const { kernels, notebooks } = buildKernels(context, shells, storage, log);
  const executor = buildExecutor({
    context,
    browser,
    shells,
    kernels,
    texts,
    bridge: bridge.elsewhere,
    places,
    questions,
    admitted,
    started,
    onRefused: (action, why) => refusals.tell(action, why),
    log,
    connection: () => session.current,
    onChanged: (change) => {
      activity.fileChanged(change);
      if (setting("reveal")) spotlight.show(change);
    },
  });
  const courier = new Courier(
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
  const session = new Session(
    context,
    identity,
    courier,
    () => executor.capabilities,
    (state) => {
      status.connection(state);
      mcp.moved();
    },
    log,
  );
  const mcp = new McpOffer(context, () => offered(session, identity));

  subscriptions.push(
    kernels,
    notebooks,
    shells,
    nets,
    buildDebugger(nets.live, log),
    bridge,
    showTexts(texts),
    activity,
    spotlight,
    status,
    started,
    new QuestionsView(questions, (count) => status.questions(count)),
    courier,
    session,
    mcp,
  );
  const command = (id: string, run: (...args: never[]) => unknown): void => {
    subscriptions.push(vscode.commands.registerCommand(id, run));
  };
  command(Command.connect, () => session.connectByHand());
  command(Command.disconnect, () => session.disconnectByHand());
  const stopping = new Stopping({
    admitted,
    courier,
    shells,
    kernels,
    started,
    browser,
    forgetGrants: () => bridge.forgetGrants(),
  });
  command(Command.stop, () => stopping.stop());
  command(Command.forgetConsent, async () => {
    await admitted.forget();
    void vscode.window.showInformationMessage(
      "Bascule: no agent is admitted to this workspace any more; the settings still hold.",
    );
  });
  command(Command.followSettings, async () => {
    await admitted.followSettings();
    void vscode.window.showInformationMessage(
      "Bascule: agents may do again what the settings allow.",
    );
  });
  command(Command.showActivity, () => vscode.commands.executeCommand(`${View.activity}.focus`));
  command(Command.openEntry, (entry: Parameters<Activity["open"]>[0]) => activity.open(entry));
  command(Command.clearActivity, () => activity.clear());
  subscriptions.push(
    vscode.window.registerUriHandler({ handleUri: (uri) => session.openLink(uri) }),
  );
  void browser.then((worker) => worker && subscriptions.push(worker));
  await session.connectBySettings();
  if (await executor.settle()) session.ableToMore();
}

/** As the settings say, or as VS Code has kept it. */
async function whoWeAre(context: vscode.ExtensionContext): Promise<WindowIdentity> {
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
    { id: Stored.windowId, key: Stored.windowKey },
  );
}

/** Not in a session's own window: what reaches the hub from there is not let in at /mcp. */
function offered(session: Session, identity: WindowIdentity): ReturnType<Hub> {
  const hub = session.current?.hub;
  if (!hub || setting("identityFile")) return undefined;
  return { hub, windowId: identity.window_id };
}

function showTexts(texts: Texts): vscode.Disposable {
  return vscode.workspace.registerTextDocumentContentProvider(SCHEME, texts);
}

/** Of this window, and started by a host that is no more. */
function isLeftBehind(value: string, windowId: string): boolean {
  const [window, , pid] = value.split(".");
  if (window !== windowId) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch {
    return true;
  }
}
