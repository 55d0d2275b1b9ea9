import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { codeOf } from "../../src/common/failure";
import { findBascule, NO_PROGRAM } from "../../src/common/nets";
import { NetCli, TOO_LONG } from "../../src/nets/net_cli";

let directory: string;
beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), "program-"))));
afterEach(() => rmSync(directory, { recursive: true }));

const never = new AbortController().signal;

/** Stands in for Python with bascule. */
function python(script: string): NetCli {
  const file = join(directory, "python");
  writeFileSync(file, `#!/usr/bin/env node\n${script}`);
  chmodSync(file, 0o755);
  return new NetCli(() => file);
}

test("is given the text on stdin, and says what it says with a status", async () => {
  const program = python(`
    let text = "";
    process.stdin.on("data", (data) => (text += data)).on("end", () => {
      console.log(JSON.stringify([process.argv.slice(2), text]));
      process.exitCode = 2;
    });`);

  const said = await program.ask(["net", "check", "-"], "a: ü\n", never);

  expect(said.status).toBe(2);
  expect(JSON.parse(said.output)).toEqual([["-m", "bascule", "net", "check", "-"], "a: ü\n"]);
});

test("one that ends without reading is answered all the same", async () => {
  const said = await python("process.exit(3)").ask([], "x".repeat(1 << 20), never);

  expect(said.status).toBe(3);
});

test("is ended when nobody wants its answer any more", async () => {
  const abort = new AbortController();
  const asking = python("setInterval(() => {}, 1000)").ask([], "", abort.signal);
  abort.abort();

  await expect(asking).rejects.toThrow("abort");
});

test.each([
  ["no such Python", () => new NetCli(() => join(directory, "none"))],
  ["no such command", () => new NetCli(() => "", { PATH: directory })],
  [
    "a Python without bascule",
    () => python(`console.error("python: No module named bascule"); process.exit(1);`),
  ],
])("%s is said by its code", async (_, program) => {
  const failure: unknown = await program()
    .ask([], "", never)
    .catch((error: unknown) => error);

  expect(codeOf(failure)).toBe(NO_PROGRAM);
});

test("a bascule is found in the workspace's own environment, and where there is none it is said", () => {
  vi.stubEnv("PATH", directory);
  try {
    expect(findBascule("/set/python", [])).toBe("/set/python");
    expect(() => findBascule("", [directory])).toThrow("bascule.python");
    mkdirSync(join(directory, ".venv/bin"), { recursive: true });
    writeFileSync(join(directory, ".venv/bin/bascule"), "");
    expect(findBascule("", [directory])).toBe(join(directory, ".venv/bin/python"));
    writeFileSync(join(directory, "bascule"), "");
    expect(findBascule("", [directory])).toBe("");
  } finally {
    vi.unstubAllEnvs();
  }
});

test("one that takes too long is ended, and that is said by its code", async () => {
  const file = join(directory, "python");
  writeFileSync(file, "#!/usr/bin/env node\nsetInterval(() => {}, 1000)");
  chmodSync(file, 0o755);

  const failure: unknown = await new NetCli(() => file, process.env, 500)
    .ask([], "", never)
    .catch((error: unknown) => error);

  expect(codeOf(failure)).toBe(TOO_LONG);
  expect(String(failure)).toContain("longer than 0.5 s");
});
