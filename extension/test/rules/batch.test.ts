import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { build } from "esbuild";
import { expect, onTestFinished, test } from "vitest";
import { answerLine, runBatch } from "../../src/rules/batch";

interface Answer {
  verdict: string;
  parts: { text: string; start: number; end: number; rule: string[] | null }[];
}

const answer = (question: object) => JSON.parse(answerLine(JSON.stringify(question))) as Answer;

async function batch(...lines: string[]) {
  const written: string[] = [];
  const failures: string[] = [];
  await runBatch(Readable.from(lines.map((line) => `${line}\n`)), {
    write: (line) => written.push(line),
    warn: (message) => failures.push(message),
  });
  return {
    verdicts: written.map((line) => (JSON.parse(line) as Answer).verdict),
    failures,
  };
}

test("every line gets one answer, in order", async () => {
  const lines = [
    { command: "ls", allow: [["ls"]], ask: [], deny: [] },
    { command: "git push", deny: [["git", "push"]] },
    { command: "ls" },
  ];
  expect(await batch(...lines.map((line) => JSON.stringify(line)))).toEqual({
    verdicts: ["allow", "deny", "ask"],
    failures: [],
  });
});

test("a line ends at a newline and nowhere else", async () => {
  const lines = ['{"command": "echo \u2028"}', '{"command": ":"}'];
  expect((await batch(...lines)).verdicts).toEqual(["ask", "allow"]);
});

test("workspace and directory are those of the question", () => {
  const question = { command: "> a", workspace: "/srv/code" };
  expect(answer(question).verdict).toBe("allow");
  expect(answer({ ...question, cwd: "/srv" }).verdict).toBe("ask");
});

test("a part has exactly the documented keys", () => {
  const [part] = answer({ command: "ls", allow: [["ls"]] }).parts;
  expect(Object.keys(part ?? {})).toEqual(["text", "start", "end", "verdict", "reason", "rule"]);
});

test("positions count characters", () => {
  const command = "echo 🎉; ls";
  const last = answer({ command }).parts.at(-1);
  expect(Array.from(command).slice(last?.start, last?.end).join("")).toBe("ls");
});

test.each([
  ["{", "line 2: "],
  ["[]", "line 2: expected an object"],
  ['{"command": 1}', 'line 2: "command" must be a string'],
  ['{"command": "ls", "allow": ["ls"]}', 'line 2: "allow" must be a list of rules'],
  ['{"command": "ls", "deny": [[]]}', 'line 2: "deny" must be a list of rules'],
  ['{"command": "ls", "cwd": "src"}', 'line 2: "cwd" must be an absolute path'],
  ["", "line 2: "],
])("a malformed line %j asks and does not end the batch", async (line, message) => {
  const { verdicts, failures } = await batch('{"command": "ls"}', line, '{"command": ":"}');
  expect(verdicts).toEqual(["ask", "ask", "allow"]);
  expect(failures).toHaveLength(1);
  expect(failures[0]).toContain(message);
});

test("an answer is one line of ASCII", () => {
  expect(answerLine('{"command": "echo \u2028 \u0085 é 🎉"}')).toMatch(/^[ -~]*$/);
});

test("the bundled program answers every line", async () => {
  const directory = mkdtempSync(join(tmpdir(), "rules-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const outfile = join(directory, "rules-batch.js");
  const entry = join(import.meta.dirname, "../../src/rules/batch_main.ts");
  await build({ entryPoints: [entry], outfile, bundle: true, platform: "node", format: "cjs" });
  const run = (input: string) =>
    spawnSync(process.execPath, [outfile], { input, encoding: "utf8" });

  const many = '{"command": "ls; rm -r a", "allow": [["ls"]]}\n'.repeat(3_000);
  const answered = run(many);
  expect(answered.status).toBe(0);
  expect(answered.stdout.trimEnd().split("\n")).toHaveLength(3_000);

  const refused = run("nonsense\n");
  expect(refused.status).toBe(0);
  expect(refused.stdout).toMatch(/"ask"/);
  expect(refused.stderr).toMatch(/^rules-batch: line 1: /);
});
