/**
 * Offers the hub's MCP server to VS Code's own agents. They act in this window like any other
 * agent.
 */
import * as vscode from "vscode";
import { Disposables, type Disposable } from "../common/disposables";
import { agentToken } from "../hub/agent_token";
import { MCP_PROVIDER, StorageKey } from "../manifest";

/** API since VS Code 1.101. Our types are those of the oldest supported version. */
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

/** The MCP server to offer; undefined while there is no hub. */
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

  /** Makes VS Code list the servers again. Call it after the connection to the hub changed. */
  refresh(): void {
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

  /** Called when an agent is about to use the server. Only then is the user asked for a token. */
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

async function askForToken(hub: string, problem: string): Promise<string | undefined> {
  return vscode.window.showInputBox({
    title: "Let VS Code's agents use Bascule",
    prompt: `${problem ? `${problem}. ` : ""}Agent token for ${hub}. Create one with: bascule token --create "VS Code"`,
    password: true,
    ignoreFocusOut: true,
  });
}
