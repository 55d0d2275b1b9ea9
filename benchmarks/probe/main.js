// The limits ours is held against, measured where it lives: in the extension host. Times are in
// seconds. The commands are for the benchmark alone, so nothing contributes them to a menu.
const vscode = require("vscode");
const { io } = require("socket.io-client");

/** When the first line of an extension ran in this host. */
const activated = Date.now() / 1000;

function activate(context) {
    const socket = new BareSocket();
    const shell = new IntegratedShell();
    const commands = {
        "probe.activated": () => activated,
        "probe.connect": (url, answer) => socket.connect(url, answer),
        "probe.language": language,
        "probe.readFile": (path, count) => readFile(vscode.Uri.file(path), count),
        "probe.shellIntegration": (command, count) => shell.run(command, count),
    };
    for (const [name, command] of Object.entries(commands))
        context.subscriptions.push(vscode.commands.registerCommand(name, command));
    context.subscriptions.push(socket, shell);
}

/** The far end of an echo: acknowledges whatever comes with an answer it was given before. */
class BareSocket {
    connect(url, answer) {
        this.dispose();
        this.socket = io(url, { transports: ["websocket"], auth: { role: "window" } });
        this.socket.on("echo", (_, acknowledge) => acknowledge(answer));
        return new Promise((resolve, reject) => {
            this.socket.once("connect", () => resolve(true));
            this.socket.once("connect_error", reject);
        });
    }

    dispose() {
        this.socket?.disconnect();
    }
}

async function readFile(uri, count) {
    return timed(count, async () => {
        await vscode.workspace.fs.readFile(uri);
    });
}

/** Commands that ask language servers; the second one gets the first result of the first one. */
async function language([first, second], file, at, count) {
    const { Position, Range, Uri, commands } = vscode;
    const uri = Uri.file(file);
    const given = (() => {
        if (typeof at === "string") return [at];
        if (at === null) return [uri, { tabSize: 2, insertSpaces: true }];
        const start = new Position(at.line, at.character);
        if (at.end) return [uri, new Range(start, new Position(at.line, at.end))];
        return first.endsWith("RenameProvider") ? [uri, start, "renamed"] : [uri, start];
    })();
    return timed(count, async () => {
        const found = await commands.executeCommand(first, ...given);
        if (second) await commands.executeCommand(second, found[0]);
    });
}

/** A terminal of VS Code's own, driven by its shell integration. It is never shown. */
class IntegratedShell {
    async run(command, count) {
        this.terminal ??= vscode.window.createTerminal({
            name: "probe",
            shellPath: "bash",
            isTransient: true,
        });
        const integration = this.terminal.shellIntegration ?? (await integrated(this.terminal));
        return timed(count, () => ended(integration, command));
    }

    dispose() {
        this.terminal?.dispose();
    }
}

function integrated(terminal) {
    return new Promise((resolve) => {
        const listening = vscode.window.onDidChangeTerminalShellIntegration((event) => {
            if (event.terminal !== terminal) return;
            listening.dispose();
            resolve(event.shellIntegration);
        });
    });
}

function ended(integration, command) {
    return new Promise((resolve, reject) => {
        const listening = vscode.window.onDidEndTerminalShellExecution((event) => {
            if (event.execution !== execution) return;
            listening.dispose();
            if (event.exitCode === 0) resolve();
            else reject(new Error(`'${command}' ended with ${event.exitCode}`));
        });
        const execution = integration.executeCommand(command);
    });
}

async function timed(count, work) {
    const seconds = [];
    for (let n = 0; n < count; n++) {
        const began = performance.now();
        await work();
        seconds.push((performance.now() - began) / 1000);
    }
    return seconds;
}

module.exports = { activate };
