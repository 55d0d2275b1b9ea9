// One file for the extension host. `vscode` is given by the host, node-pty by VS Code itself.
import { build } from "esbuild";

await build({
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    bundle: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    external: ["vscode"],
    sourcemap: "linked",
    legalComments: "none",
    logLevel: "warning",
});
