/** Offers the hub's MCP server to VS Code's own agents, which then act in this window as any other does. */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { agentToken } from "../hub/agent_token";
import { MCP_PROVIDER, StorageKey } from "../manifest";

/** What VS Code has had since 1.101; our types are those of the oldest version we run in. */
interface Definition {
  uri: vscode.Uri;
  headers: Record<string, string>;
}
interface Provider {
  onDidChangeMcpServerDefinitions: vscode.Event<void>;
  provideMcpServerDefinitions(): Definition[];
  resolveMcpServerDefinition(definition: Definition): Promise<Definition | undefined>;
}
interface NewerVsCode {
  lm?: {
    registerMcpServerDefinitionProvider?: (id: string, provider: Provider) => vscode.Disposable;
  };
  McpHttpServerDefinition?: new (
    label: string,
    uri: vscode.Uri,
    headers?: Record<string, string>,
    version?: string,
  ) => Definition;
}

/** Where the server is that is offered now; nothing while there is no hub. */
export type McpTarget = () => { hub: string; windowId: string } | undefined;

export class McpServerProvider implements Disposable {
  private readonly owned = new Disposables();
  private readonly changed = new vscode.EventEmitter<void>();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly hub: McpTarget,
  ) {
    this.owned.add(this.changed);
    const newer = vscode as unknown as NewerVsCode;
    const register = newer.lm?.registerMcpServerDefinitionProvider;
    const Http = newer.McpHttpServerDefinition;
    if (!register || !Http) return; // a VS Code before 1.101
    const { version } = context.extension.packageJSON as { version: string };
    this.owned.add(
      register(MCP_PROVIDER, {
        onDidChangeMcpServerDefinitions: this.changed.event,
        provideMcpServerDefinitions: () =>
          this.addresses().map((uri) => new Http("Bascule", uri, {}, version)),
        resolveMcpServerDefinition: (definition) => this.resolve(definition),
      }),
    );
  }

  /** There is a hub, another one, or none. */
  moved(): void {
    this.changed.fire();
  }

  dispose(): void {
    this.owned.dispose();
  }

  private addresses(): vscode.Uri[] {
    const now = this.hub();
    if (!now) return [];
    const url = new URL("/mcp", now.hub);
    url.searchParams.set("window", now.windowId);
    return [vscode.Uri.parse(url.href, true)];
  }

  /** Called when an agent is about to use it: only then is a token needed, and asked for. */
  private async resolve(definition: Definition): Promise<Definition | undefined> {
    const now = this.hub();
    if (!now) return undefined;
    const { secrets } = this.context;
    const kept = {
      get: async (name: string) => secrets.get(name),
      set: async (name: string, value: string) => secrets.store(name, value),
    };
    const token = await agentToken(now.hub, kept, StorageKey.agentToken, askForToken);
    if (!token) return undefined;
    definition.headers = { Authorization: `Bearer ${token}` };
    return definition;
  }
}

async function askForToken(hub: string, complaint: string): Promise<string | undefined> {
  return vscode.window.showInputBox({
    title: "Let VS Code's agents use Bascule",
    prompt: `${complaint ? `${complaint}. ` : ""}A token for agents of ${hub}: bascule token --create "VS Code"`,
    password: true,
    ignoreFocusOut: true,
  });
}
