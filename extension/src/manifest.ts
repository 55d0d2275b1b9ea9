/** The ids that package.json and the code share. A test compares the two. */
export const CommandId = {
  connect: "bascule.connect",
  disconnect: "bascule.disconnect",
  stop: "bascule.stop",
  forgetConsent: "bascule.forgetConsent",
  followSettings: "bascule.followSettings",
  showQuestions: "bascule.showQuestions",
  answerQuestion: "bascule.answerQuestion",
  allowOnce: "bascule.allowOnce",
  denyQuestion: "bascule.denyQuestion",
  showLog: "bascule.showLog",
  showActivity: "bascule.showActivity",
  openEntry: "bascule.openEntry",
  clearActivity: "bascule.clearActivity",
  openBridgedTerminal: "bascule.openBridgedTerminal",
  runNet: "evolve.runNet",
  debugNet: "evolve.debugNet",
  showNet: "evolve.showNet",
} as const;

/** Commands by which the user gives consent. Agents and scripts may not run them. */
export const CONSENT_COMMANDS: ReadonlySet<string> = new Set([
  CommandId.followSettings,
  CommandId.answerQuestion,
  CommandId.allowOnce,
  CommandId.denyQuestion,
]);

/** URI scheme of documents that show a question. */
export const QUESTION_SCHEME = "bascule-question";

/** Debug type of nets. The bridge answers the requests of these debug sessions. */
export const DEBUG_TYPE = "evolve";

/** Id of the MCP server provider. */
export const MCP_PROVIDER = "bascule.mcp";

export const ViewId = { activity: "bascule.activity" } as const;

/** Settings by their path below `bascule`, with the type of each. All are machine-scoped. */
export interface Settings {
  hub: string;
  autoConnect: boolean;
  tokenFile: string;
  identityFile: string;
  keystrokeFile: string;
  consent: Partial<Record<string, "allow" | "ask" | "deny">>;
  allowOutside: string[];
  allowedCommands: string[];
  reveal: boolean;
  python: string;
  "ipython.followShell": boolean;
  "ipython.maxKernels": number;
  "terminal.kind": "own" | "integrated";
  "terminal.softTimeout": number;
  "terminal.outputLimit": number;
  "terminal.logLimit": number;
  "terminal.maxShells": number;
}

export const SettingNames: readonly (keyof Settings)[] = [
  "hub",
  "autoConnect",
  "tokenFile",
  "identityFile",
  "keystrokeFile",
  "consent",
  "allowOutside",
  "allowedCommands",
  "reveal",
  "python",
  "ipython.followShell",
  "ipython.maxKernels",
  "terminal.kind",
  "terminal.softTimeout",
  "terminal.outputLimit",
  "terminal.logLimit",
  "terminal.maxShells",
];

/** Settings by their path below `evolve`. Machine-scoped too. */
export interface EvolveSettings {
  "runBridge.enabled": boolean;
  "runBridge.port": number;
  "runBridge.allowedCommands": string[];
  "runBridge.allowEdits": boolean;
}

/** Keys of values that VS Code stores between sessions. */
export const StorageKey = {
  windowId: "bascule.windowId",
  windowKey: "bascule.windowKey",
  token: "bascule.token",
  agentToken: "bascule.agentToken",
  hub: "bascule.hub",
  /** Hub and token id of each admitted agent. The old key `bascule.admitted` held names. */
  admitted: "bascule.admittedAgents",
  stopped: "bascule.stopped",
  reconnect: "bascule.reconnect",
} as const;
