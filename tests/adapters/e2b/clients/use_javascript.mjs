// Uses a sandbox through E2B's own clients for JavaScript.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.E2B_MODULES, "package.json"));
const { CommandExitError, FileNotFoundError, FileType, Sandbox, Template } = load("e2b");
const { Sandbox: Interpreter } = load("@e2b/code-interpreter");

const box = await Interpreter.create({ metadata: { language: "js" }, timeoutMs: 600_000 });

const done = await box.commands.run("echo out; echo err >&2");
assert.deepEqual([done.stdout, done.stderr, done.exitCode], ["out\n", "err\n", 0]);
await assert.rejects(box.commands.run("exit 3"), (error) => {
    return error instanceof CommandExitError && error.exitCode === 3;
});
const cat = await box.commands.run("cat; exit 4", { background: true, stdin: true });
await box.commands.sendStdin(cat.pid, "typed\n");
await cat.disconnect();
const again = await box.commands.connect(cat.pid);
await box.commands.sendStdin(cat.pid, "twice\n");
await box.commands.closeStdin(cat.pid);
await assert.rejects(again.wait(), (error) => error.exitCode === 4 && error.stdout.endsWith("twice\n"));
const sleeper = await box.commands.run("sleep 600", { background: true });
assert.ok((await box.commands.list()).some((each) => each.pid === sleeper.pid));
assert.equal(await sleeper.kill(), true);
await assert.rejects(sleeper.wait(), CommandExitError);

const bytes = new Uint8Array(1 << 22).map((_, at) => at % 251);
await box.files.write("a/large", bytes.buffer);
const sum = createHash("sha256").update(bytes).digest("hex");
assert.ok((await box.commands.run("sha256sum a/large")).stdout.startsWith(sum));
const back = await box.files.read("a/large", { format: "bytes" });
assert.equal(createHash("sha256").update(back).digest("hex"), sum);
await box.files.write([{ path: "a/1", data: "one" }, { path: "a/2", data: "two" }]);
assert.equal(await box.files.read("a/2"), "two");
assert.deepEqual((await box.files.list("a")).map((each) => each.name), ["1", "2", "large"]);
assert.equal((await box.files.getInfo("a")).type, FileType.DIR);
await box.files.rename("a/1", "b/1");
await box.files.remove("a");
assert.equal(await box.files.exists("a"), false);
await assert.rejects(box.files.read("a/2"), FileNotFoundError);

let changed;
const change = new Promise((resolve) => (changed = resolve));
const watch = await box.files.watchDir("b", (event) => event.name === "new" && changed(event));
await box.files.write("b/new", "");
assert.equal((await change).name, "new");
await watch.stop();

let shown = "";
const terminal = await box.pty.create({
    cols: 99,
    rows: 30,
    onData: (data) => (shown += new TextDecoder().decode(data)),
});
await box.pty.resize(terminal.pid, { cols: 111, rows: 40 });
await box.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size; exit\n"));
await terminal.wait();
assert.match(shown, /40 111/);

const cell = await box.runCode("print('out')\n6 * 7");
assert.deepEqual([cell.text, cell.logs.stdout.join("")], ["42", "out\n"]);
const failed = await box.runCode("1 / 0");
assert.equal(failed.error.name, "ZeroDivisionError");
const own = await box.createCodeContext({ cwd: "/tmp" });
assert.equal((await box.runCode("import os; os.getcwd()", { context: own })).text, "'/tmp'");
await box.removeCodeContext(own);

const query = { metadata: { language: "js" } };
assert.deepEqual((await Sandbox.list({ query }).nextItems()).map((each) => each.sandboxId), [box.sandboxId]);
await box.pause();
assert.equal(await box.isRunning(), false);
const resumed = await Sandbox.connect(box.sandboxId);
assert.equal((await resumed.commands.run("cat b/1")).stdout, "one");
assert.equal((await resumed.getMetrics()).length, 1);
assert.equal(resumed.getHost(80), `80-${box.sandboxId}.${resumed.sandboxDomain}`);
assert.equal(await Template.exists("base"), true);
await resumed.setTimeout(60_000);
await resumed.kill();
assert.equal(await resumed.isRunning(), false);
console.log("passed");
