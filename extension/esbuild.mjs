// One file for the extension host. `vscode` is given by the host, node-pty by VS Code itself.
import { copyFile, mkdir } from "node:fs/promises";
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

// The process that has a kernel is the sandbox's own; it runs in the user's Python, so it comes along.
await mkdir("dist", { recursive: true });
await copyFile("../src/bascule/sandbox/ipython/_worker_main.py", "dist/ipython_worker.py");
// So does the schema of nets, for whatever completes YAML: what `bascule net schema` prints.
await copyFile("../src/bascule/net/evolve.schema.json", "dist/evolve.schema.json");
