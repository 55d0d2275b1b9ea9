/** A window's side of the hub: who it is, what it says of itself, and the one connection it has. */
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";
import { Disposables, type Disposable } from "./common/disposables";
import { messageOf } from "./common/failure";
import type { Log } from "./common/log";
import { Connection, pair, type ConnectionState } from "./hub/connection";
import type { WindowDescription, WindowIdentity } from "./hub/contract";
import type { Courier } from "./hub/courier";
import { Stored } from "./manifest";
import { setting } from "./settings";

export class Session implements Disposable {
  private readonly owned = new Disposables();
  private connection: Connection | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly identity: WindowIdentity,
    private readonly courier: Courier,
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

  /** The window can do more than it said. */
  ableToMore(): void {
    this.connection?.changed({ capabilities: this.capabilities() });
  }

  get current(): Connection | undefined {
    return this.connection;
  }

  /** As the settings of this machine say, without asking anyone. */
  async connectBySettings(): Promise<void> {
    if (!setting("autoConnect")) return;
    const token = await this.storedToken();
    const hub = setting("hub");
    if (hub && token) this.connect(hub, token);
    else this.log.warn("bascule.autoConnect is on, but there is no hub or no token");
  }

  /** Asks for what is missing: the hub's address, and a pairing code when there is no token. */
  async connectByHand(): Promise<void> {
    const known = setting("hub") || this.context.globalState.get<string>(Stored.hub, "");
    const hub = await vscode.window.showInputBox({
      prompt: "Address of the hub",
      placeHolder: "http://127.0.0.1:8300",
      value: known,
      ignoreFocusOut: true,
      validateInput: (text) => (URL.canParse(text) ? undefined : "This is no address"),
    });
    if (!hub) return;
    const token = await this.storedToken(hub);
    if (token && this.connection?.state.is !== "refused") return this.connect(hub, token);
    const code = await vscode.window.showInputBox({
      prompt: "Pairing code from the hub",
      ignoreFocusOut: true,
    });
    if (code) await this.pairWith(hub, code);
  }

  /** `vscode://bascule.bascule-vscode/pair?hub=…&code=…` */
  async openLink(uri: vscode.Uri): Promise<void> {
    const given = new URLSearchParams(uri.query);
    const [hub, code] = [given.get("hub") ?? "", given.get("code") ?? ""];
    if (uri.path !== "/pair" || !URL.canParse(hub) || !code) return;
    const yes = "Connect";
    const text = `Let agents of the hub ${hub} act in this window? You will be asked before each new one does.`;
    if ((await vscode.window.showWarningMessage(text, { modal: true }, yes)) === yes)
      await this.pairWith(hub, code);
  }

  connect(hub: string, token: string): void {
    this.disconnect();
    const connection = new Connection(
      {
        hub,
        token,
        identity: this.identity,
        describe: () => describe(this.context, this.capabilities()),
        probe: () => probe(this.context),
      },
      this.courier,
      this.log,
    );
    this.connection = connection;
    this.courier.attach(connection);
    this.onState(connection.state);
    connection.onState.listen((state) => {
      if (this.connection === connection) this.onState(state);
    });
  }

  disconnect(): void {
    this.courier.attach(undefined);
    this.connection?.dispose();
    this.connection = undefined;
    this.onState({ is: "closed" });
  }

  dispose(): void {
    this.owned.dispose();
    this.disconnect();
  }

  private async pairWith(hub: string, code: string): Promise<void> {
    try {
      const paired = await pair(hub, code);
      await this.context.secrets.store(`${Stored.token}.${paired.hub}`, paired.token);
      await this.context.globalState.update(Stored.hub, paired.hub);
      this.connect(paired.hub, paired.token);
    } catch (error) {
      void vscode.window.showErrorMessage(`Bascule: ${messageOf(error)}`);
    }
  }

  private async storedToken(hub = setting("hub")): Promise<string | undefined> {
    const file = setting("tokenFile");
    if (!file) return this.context.secrets.get(`${Stored.token}.${hub}`);
    try {
      return (await readFile(file, "utf8")).trim();
    } catch (error) {
      this.log.error(`the token in ${file} cannot be read: ${messageOf(error)}`);
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

/** Through the editor and back. What it finds does not matter, only that it answers. */
async function probe(context: vscode.ExtensionContext): Promise<void> {
  const place = vscode.workspace.workspaceFolders?.[0]?.uri ?? context.globalStorageUri;
  await vscode.workspace.fs.stat(place).then(
    () => undefined,
    () => undefined,
  );
}
