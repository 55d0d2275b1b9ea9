// A language model for tests: it adds, counts, repeats what it was told before, and refuses.
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
    context.subscriptions.push(
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
