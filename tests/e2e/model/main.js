// A language model for tests: it adds, counts, repeats what it was told before, and refuses. And a
// look at what only extensions see: what is said in debug sessions, and how tasks end.
const vscode = require("vscode");

function activate(context) {
    const changed = new vscode.EventEmitter();
    let isThere = true;
    const provider = {
        onDidChangeLanguageModelChatInformation: changed.event,
        provideLanguageModelChatInformation: () => (isThere ? [information] : []),
        provideLanguageModelChatResponse: answer,
        provideTokenCount: () => 1,
    };
    const said = [];
    const told = (message) => said.push(message);
    const statuses = [];
    const ended = new vscode.EventEmitter();
    context.subscriptions.push(
        vscode.debug.registerDebugAdapterTrackerFactory("evolve", {
            createDebugAdapterTracker: () => ({
                onWillReceiveMessage: told,
                onDidSendMessage: told,
            }),
        }),
        // All that was said since the last time.
        vscode.commands.registerCommand("testmodel.debugged", () => said.splice(0)),
        vscode.tasks.onDidEndTaskProcess(({ exitCode }) => {
            statuses.push(exitCode);
            ended.fire();
        }),
        // The exit status of the task that ended next after the last time.
        vscode.commands.registerCommand("testmodel.taskStatus", async () => {
            if (!statuses.length) await new Promise((resolve) => ended.event(resolve));
            return statuses.shift();
        }),
        vscode.commands.registerCommand("testmodel.set", (name, value) =>
            vscode.workspace.getConfiguration().update(name, value, true),
        ),
        vscode.commands.registerCommand("testmodel.addBreakpoint", (path, line) => {
            const at = new vscode.Location(vscode.Uri.file(path), new vscode.Position(line - 1, 0));
            vscode.debug.addBreakpoints([new vscode.SourceBreakpoint(at)]);
        }),
        // With the caret in it.
        vscode.commands.registerCommand("testmodel.open", async (path) => {
            await vscode.window.showTextDocument(vscode.Uri.file(path), { preview: false });
        }),
        // VS Code's own command for terminals waits for ever where a task in one has ended.
        vscode.commands.registerCommand("testmodel.endAll", async () => {
            await vscode.debug.stopDebugging();
            vscode.debug.removeBreakpoints(vscode.debug.breakpoints);
            for (const terminal of vscode.window.terminals) terminal.dispose();
        }),
        vscode.commands.registerCommand("testmodel.breakpoints", () =>
            vscode.debug.breakpoints.map(({ location, enabled }) => [
                location.uri.fsPath,
                location.range.start.line + 1,
                enabled,
            ]),
        ),
        vscode.lm.registerLanguageModelChatProvider("bascule-tests", provider),
        // There and back: what the window did before is known to extensions then.
        vscode.commands.registerCommand("testmodel.settle", () =>
            vscode.commands.executeCommand("setContext", "testmodel.settled", true),
        ),
        vscode.commands.registerCommand("testmodel.present", (present) => {
            isThere = present;
            changed.fire();
        }),
    );
}

const information = {
    id: "adder",
    name: "Adder",
    family: "test",
    version: "1",
    maxInputTokens: 1000,
    maxOutputTokens: 1000,
    capabilities: {},
};

async function answer(_model, messages, _options, progress, token) {
    const texts = messages.map(({ content }) => content.map((part) => part.value ?? "").join(""));
    const asked = texts.at(-1);
    if (asked === "Refuse") throw vscode.LanguageModelError.Blocked("I will not");
    const sum = /(\d+)\s*\+\s*(\d+)/.exec(asked);
    const said = sum
        ? [String(Number(sum[1]) + Number(sum[2]))]
        : asked === "Count"
          ? ["one ", "two ", "three"]
          : [`You said: ${texts.slice(0, -1).join(" | ")}`];
    if (asked === "Never stop") await new Promise((resolve) => token.onCancellationRequested(resolve));
    for (const piece of said) progress.report(new vscode.LanguageModelTextPart(piece));
}

module.exports = { activate };
