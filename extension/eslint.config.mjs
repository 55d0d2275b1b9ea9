import js from "@eslint/js";
import ts from "typescript-eslint";

const inward = (files, ...forbidden) => ({
    files,
    rules: {
        "no-restricted-imports": [
            "error",
            { patterns: forbidden.map((group) => ({ group: [group] })) },
        ],
    },
});

export default ts.config(
    { ignores: ["dist", "node_modules", "src/protocol/events.ts"] },
    js.configs.recommended,
    ...ts.configs.strictTypeChecked,
    {
        languageOptions: {
            parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
        },
        rules: {
            "@typescript-eslint/restrict-template-expressions": [
                "error",
                { allowNumber: true, allowBoolean: true },
            ],
            "@typescript-eslint/no-confusing-void-expression": "off",
            "@typescript-eslint/no-unnecessary-condition": [
                "error",
                { allowConstantLoopConditions: true },
            ],
            eqeqeq: "error",
        },
    },
    { files: ["*.mjs"], ...ts.configs.disableTypeChecked },
    // Imports point inward: views, actions > notebook > terminal > hub > protocol > common.
    inward(["src/hub/**"], "vscode", "**/actions/*", "**/terminal/*", "**/views/*"),
    inward(
        ["src/protocol/**"],
        "vscode",
        "**/actions/*",
        "**/terminal/*",
        "**/views/*",
        "**/hub/*",
    ),
    inward(["src/common/**"], "vscode", "../**"),
    // Rules for commands also run outside of VS Code.
    inward(["src/rules/**"], "vscode", "../**"),
    // The model of the review knows no VS Code; `changes` shows it.
    inward(["src/review/**"], "vscode", "**/terminal/*", "**/views/*", "**/hub/*", "**/changes/*"),
    // What scripts reach the window by; its server and its rules know no VS Code.
    inward(["src/bridge/**"], "**/actions/*", "**/terminal/*", "**/views/*", "**/hub/*"),
    inward(
        ["src/bridge/{consent,dispatcher,form_page,hub_requests,messages,params,runs,server}.ts"],
        "vscode",
        "**/actions/*",
        "**/terminal/*",
        "**/views/*",
        "**/hub/*",
    ),
    // Nets, which the bridge runs and the debugger debugs; what knows no VS Code is tested without.
    inward(
        ["src/nets/**"],
        "**/actions/*",
        "**/terminal/*",
        "**/views/*",
        "**/hub/*",
        "**/bridge/*",
        "**/debug/*",
    ),
    inward(
        ["src/nets/{cli_output,drawing_page,latest_tasks,marking,net_cli,schema_keys,trace}.ts"],
        "vscode",
        "**/actions/*",
        "**/terminal/*",
        "**/views/*",
        "**/hub/*",
        "**/bridge/*",
        "**/debug/*",
    ),
    inward(["src/mcp/**"], "**/actions/*", "**/terminal/*", "**/views/*"),
    inward(["src/debug/**"], "**/actions/*", "**/terminal/*", "**/views/*", "**/hub/*"),
    inward(["src/terminal/**"], "**/actions/*", "**/views/*", "**/notebook/*"),
    inward(["src/notebook/**"], "**/actions/*", "**/views/*"),
);
