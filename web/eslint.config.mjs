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
    { ignores: ["node_modules"] },
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
            eqeqeq: "error",
        },
    },
    { files: ["*.mjs"], ...ts.configs.disableTypeChecked },
    // Imports point inward: views > ui, timeline > hub. What a test needs no browser for knows none.
    inward(["src/hub/**"], "**/views/*", "**/ui/*", "**/timeline/*"),
    inward(["src/timeline/**"], "**/views/*"),
    inward(["src/ui/**"], "**/views/*", "**/timeline/*"),
    inward(
        ["src/timeline/{ansi,describe,diff,timeline_log,virtual_list}.ts"],
        "preact",
        "preact/*",
        "@preact/*",
    ),
);
