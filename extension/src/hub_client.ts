/**
 * Connects this window to a hub: pairing, stored tokens, reconnecting, and the window's
 * description.
 */
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";
import { Disposables, type Disposable } from "./common/disposables";
import { messageOf } from "./common/failure";
import type { Log } from "./common/log";
import { withoutLinks } from "./consent/visible_text";
import { hubAddress } from "./hub/address";
import {
  HubConnection,
  pair,
  type ConnectionState,
  type MergeReceiver,
  type SharedReview,
} from "./hub/connection";
import type { WindowDescription, WindowIdentity } from "./hub/messages";
import type { ActionRunner } from "./hub/action_runner";
import { StorageKey } from "./manifest";
import { setting } from "./settings";

export class HubClient implements Disposable {
  private readonly owned = new Disposables();
  private connection: HubConnection | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly identity: WindowIdentity,
    private readonly runner: ActionRunner,
    private readonly merges: MergeReceiver,
    private readonly review: SharedReview,
    private readonly capabilities: () => string[],
    private readonly onState: (state: ConnectionState) => void,
    private readonly log: Log,
  ) {
    this.owned.add(
      vscode.workspace.onDidChangeWorkspaceFolders(() =>
        this.connection?.changed({ name: windowName(), folders: folders() }),
      ),
    );
  }

  /** Tells the hub about capabilities that were found after registration. */
  capabilitiesChanged(): void {
    this.connection?.changed({ capabilities: this.capabilities() });
  }

  get current(): HubConnection | undefined {
    return this.connection;
  }

  /** Connects if `bascule.autoConnect` is on, or if the user chose to reconnect when pairing. */
  async connectBySettings(): Promise<void> {
    const remembered = this.context.workspaceState.get<string>(StorageKey.reconnect);
    if (!setting("autoConnect") && !remembered) return;
    const given = setting("autoConnect") ? setting("hub") : "";
    const hub = hubAddress(given) ?? remembered;
    const token = hub && (await this.storedToken(hub));
    if (hub && token) this.connect(hub, token);
    else if (remembered)
      this.log.warn(`the token for ${remembered} is no longer stored: pair this window again`);
    else this.log.warn("bascule.autoConnect is on, but the hub or the token is missing");
  }

  /**
   * The command "Connect to a Hub": asks for the address, and for a pairing code if there is no
   * token.
   */
  async connectByHand(): Promise<void> {
    const known = setting("hub") || this.context.globalState.get<string>(StorageKey.hub, "");
    const typed = await vscode.window.showInputBox({
      prompt: "Address of the hub",
      placeHolder: "http://127.0.0.1:8300",
      value: known,
      ignoreFocusOut: true,
      validateInput: (text) =>
        hubAddress(text) ? undefined : "Enter an address such as http://127.0.0.1:8300",
    });
    const hub = typed === undefined ? undefined : hubAddress(typed);
    if (!hub) return;
    const token = await this.storedToken(hub);
    if (token && this.connection?.state.is !== "refused") this.connect(hub, token);
    else if (!(await this.pairByCode(hub))) return;
    await this.offerToReconnect();
    await this.showOutcome();
  }

  /** Opens a pairing link: `vscode://bascule.bascule-vscode/pair?hub=…&code=…` */
  async openLink(uri: vscode.Uri): Promise<void> {
    const given = new URLSearchParams(uri.query);
    const [hub, code] = [hubAddress(given.get("hub") ?? ""), given.get("code") ?? ""];
    if (uri.path !== "/pair" || !hub || !code) return;
    const [always, once] = ["Connect", "Connect This Time Only"];
    const text = `Let agents from the hub ${hub} act in this window?`;
    const detail =
      "You will be asked before a new agent acts for the first time. The window reconnects whenever it is reloaded or opened, until you disconnect it.";
    const options = { modal: true, detail };
    const answer = await vscode.window.showWarningMessage(text, options, always, once);
    if (!answer) return;
    const problem = await this.pairWith(hub, code);
    if (problem) {
      // A modal closes with the answer; a notification would remain after a later pairing
      // succeeded.
      void vscode.window.showErrorMessage(`Bascule: ${problem}`, { modal: true });
      return;
    }
    await this.reconnect(answer === always);
    await this.showOutcome();
  }

  connect(hub: string, token: string): void {
    this.disconnect();
    const connection = new HubConnection(
      {
        hub,
        token,
        identity: this.identity,
        describe: () => describe(this.context, this.capabilities()),
        probe: () => probe(this.context),
        review: this.review,
      },
      this.runner,
      this.merges,
      this.log,
    );
    this.connection = connection;
    this.runner.attach(connection);
    this.onState(connection.state);
    connection.onState.listen((state) => {
      if (this.connection === connection) this.onState(state);
    });
  }

  /** The command "Disconnect": also turns off reconnecting after a reload. */
  async disconnectByHand(): Promise<void> {
    await this.reconnect(false);
    this.disconnect();
  }

  private disconnect(): void {
    this.runner.attach(undefined);
    this.connection?.dispose();
    this.connection = undefined;
    this.onState({ is: "closed" });
  }

  dispose(): void {
    this.owned.dispose();
    this.disconnect();
  }

  /** Asks for a code until the hub accepts one. Returns false if the user cancelled. */
  private async pairByCode(hub: string): Promise<boolean> {
    let problem = "";
    for (;;) {
      const code = await vscode.window.showInputBox({
        prompt: `${problem ? `${withoutLinks(problem)}. ` : ""}Pairing code from the hub`,
        ignoreFocusOut: true,
      });
      if (!code) return false;
      problem = await this.pairWith(hub, code);
      if (!problem) return true;
    }
  }

  /** Returns the error message; empty if pairing succeeded. */
  private async pairWith(hub: string, code: string): Promise<string> {
    try {
      const token = await pair(hub, code);
      await this.context.secrets.store(`${StorageKey.token}.${hub}`, token);
      await this.context.globalState.update(StorageKey.hub, hub);
      this.connect(hub, token);
      return "";
    } catch (error) {
      return messageOf(error);
    }
  }

  private async offerToReconnect(): Promise<void> {
    if (setting("autoConnect")) return;
    const yes = "Yes, whenever this workspace is opened";
    const answer = await vscode.window.showQuickPick([yes, "No, this time only"], {
      title: "Connect again after a reload?",
      ignoreFocusOut: true,
    });
    await this.reconnect(answer === yes);
  }

  private async reconnect(isWanted: boolean): Promise<void> {
    const hub = isWanted ? this.connection?.hub : undefined;
    await this.context.workspaceState.update(StorageKey.reconnect, hub);
  }

  /** Shows whether the connection that the user asked for succeeded. */
  private async showOutcome(): Promise<void> {
    const { connection } = this;
    if (!connection) return;
    const state = await connection.settled();
    if (this.connection !== connection) return;
    if (state.is === "connected")
      void vscode.window.showInformationMessage(`Bascule: connected to ${state.hub}.`);
    else if (state.is === "refused")
      void vscode.window.showErrorMessage(`Bascule: ${state.problem}`, { modal: true });
  }

  private async storedToken(hub: string): Promise<string | undefined> {
    const file = setting("tokenFile");
    if (!file) return this.context.secrets.get(`${StorageKey.token}.${hub}`);
    try {
      return (await readFile(file, "utf8")).trim();
    } catch (error) {
      this.log.error(`cannot read the token file ${file}: ${messageOf(error)}`);
      return undefined;
    }
  }
}

function describe(context: vscode.ExtensionContext, capabilities: string[]): WindowDescription {
  const { version } = context.extension.packageJSON as { version: string };
  return {
    name: windowName(),
    folders: folders(),
    vscode_version: vscode.version,
    extension_version: version,
    platform: process.platform,
    app: vscode.env.appHost === "desktop" ? vscode.env.appName : vscode.env.appHost,
    remote: remoteKind(),
    capabilities,
    reviews_merges: true,
  };
}

function windowName(): string {
  return vscode.workspace.name ?? "no folder";
}

function folders(): { name: string; path: string }[] {
  return (vscode.workspace.workspaceFolders ?? [])
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => ({ name: folder.name, path: folder.uri.fsPath }));
}

function remoteKind(): WindowDescription["remote"] {
  const name = vscode.env.remoteName ?? "";
  if (name.startsWith("ssh")) return "ssh";
  if (name.startsWith("wsl")) return "wsl";
  if (name.includes("container")) return "container";
  return vscode.env.uiKind === vscode.UIKind.Web ? "web" : "local";
}

/** A round trip through the editor. Only the fact that the editor answers matters. */
async function probe(context: vscode.ExtensionContext): Promise<void> {
  const place = vscode.workspace.workspaceFolders?.[0]?.uri ?? context.globalStorageUri;
  await vscode.workspace.fs.stat(place).then(
    () => undefined,
    () => undefined,
  );
}
