// One file for the extension host. `vscode` is given by the host, node-pty by VS Code itself.
import { copyFile, mkdir, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { build } from "esbuild";

const common = {
    bundle: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    legalComments: "none",
    logLevel: "warning",
};

await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    sourcemap: "linked",
});

// Decides on commands by rules, outside of VS Code. It has the parser of bash in it.
await build({
    ...common,
    entryPoints: ["src/rules/batch_main.ts"],
    outfile: "dist/rules-batch.js",
});

// The sandbox's programs for IPython; they run in the user's Python.
await mkdir("dist", { recursive: true });
await copyFile("../src/bascule/sandbox/ipython/_worker_main.py", "dist/ipython_worker.py");
await copyFile("../src/bascule/sandbox/ipython/_kernel_main.py", "dist/_kernel_main.py");
// So does the schema of nets, for whatever completes YAML: what `bascule net schema` prints.
await copyFile("../src/bascule/net/evolve.schema.json", "dist/evolve.schema.json");

// Checkpoints are recorded by the sandbox's own package, in a process. It needs these modules only.
const modules = JSON.parse(await readFile("checkpoint_modules.json", "utf8"));
await rm("dist/python", { recursive: true, force: true });
for (const module of modules) {
    const target = `dist/python/${module}`;
    await mkdir(dirname(target), { recursive: true });
    await copyFile(`../src/${module}`, target);
}
