import type { TestCommandSetting } from "./tests/test_commands";

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
  showRules: "bascule.showRules",
  showLog: "bascule.showLog",
  showActivity: "bascule.showActivity",
  openEntry: "bascule.openEntry",
  clearActivity: "bascule.clearActivity",
  openBridgedTerminal: "bascule.openBridgedTerminal",
  keepChange: "bascule.keepChange",
  undoChange: "bascule.undoChange",
  keepAtCursor: "bascule.keepAtCursor",
  undoAtCursor: "bascule.undoAtCursor",
  nextChange: "bascule.nextChange",
  previousChange: "bascule.previousChange",
  keepFile: "bascule.keepFile",
  undoFile: "bascule.undoFile",
  keepAll: "bascule.keepAll",
  undoAll: "bascule.undoAll",
  showChanges: "bascule.showChanges",
  showFileChanges: "bascule.showFileChanges",
  restoreCheckpoint: "bascule.restoreCheckpoint",
  runNet: "evolve.runNet",
  debugNet: "evolve.debugNet",
  showNet: "evolve.showNet",
} as const;

/** Commands by which the user gives consent, changes rules or reviews changes. Only users run them. */
export const CONSENT_COMMANDS: ReadonlySet<string> = new Set([
  CommandId.followSettings,
  CommandId.answerQuestion,
  CommandId.allowOnce,
  CommandId.denyQuestion,
  CommandId.showRules,
  CommandId.keepChange,
  CommandId.undoChange,
  CommandId.keepAtCursor,
  CommandId.undoAtCursor,
  CommandId.keepFile,
  CommandId.undoFile,
  CommandId.keepAll,
  CommandId.undoAll,
  CommandId.restoreCheckpoint,
]);

/** URI scheme of documents that show a question. */
export const QUESTION_SCHEME = "bascule-question";

/** URI scheme of documents that show a file without the pending changes of agents. */
export const BASE_SCHEME = "bascule-base";

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
  sessionSocket: string;
  consent: Partial<Record<string, "allow" | "ask" | "deny">>;
  allowOutside: string[];
  allowedCommands: string[];
  testCommands: TestCommandSetting[];
  reveal: boolean;
  review: boolean;
  "checkpoints.enabled": boolean;
  "checkpoints.directory": string;
  "checkpoints.storeLimit": number;
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
  "sessionSocket",
  "consent",
  "allowOutside",
  "allowedCommands",
  "testCommands",
  "reveal",
  "review",
  "checkpoints.enabled",
  "checkpoints.directory",
  "checkpoints.storeLimit",
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
