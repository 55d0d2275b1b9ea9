// Python in VS Code without a marketplace: basedpyright as language server and debugpy as debug adapter.
// `scripts/language-servers` installs both, and vscode-languageclient. The variables of tests/e2e/python_window.py
// say where they are.
const { spawn } = require("node:child_process");
const path = require("node:path");
const vscode = require("vscode");

const { TESTS_PYRIGHT, TESTS_DEBUGPY_PYTHON, TESTS_NODE_MODULES } = process.env;

let server;

function startServer() {
  server = spawn(process.execPath, [TESTS_PYRIGHT, "--stdio"]);
  return Promise.resolve(server);
}

exports.activate = async ({ subscriptions }) => {
  const { LanguageClient } = require(path.join(TESTS_NODE_MODULES, "vscode-languageclient/node"));
  const client = new LanguageClient("testsPython", "Python", startServer, {
    documentSelector: [{ scheme: "file", language: "python" }],
  });
  subscriptions.push(
    vscode.commands.registerCommand("testsPython.serverPid", () => server.pid),
    vscode.commands.registerCommand("testsPython.stopServer", () => client.stop()),
    vscode.debug.registerDebugAdapterDescriptorFactory("debugpy", {
      createDebugAdapterDescriptor: () =>
        new vscode.DebugAdapterExecutable(TESTS_DEBUGPY_PYTHON, ["-m", "debugpy.adapter"]),
    }),
    client,
  );
  await client.start();
};
