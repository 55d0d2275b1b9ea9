import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as nodePty from "node-pty";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { RunCommand } from "../../src/terminal/observations";
import type { PtyModule } from "../../src/terminal/bash";
import { BashShell } from "../../src/terminal/shell";
import { silent } from "../common/silent";
import type { CmdMetadata, ObservationBody } from "../../src/protocol";

let directory: string;
let shell: BashShell;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-"));
  shell = make();
});

afterEach(() => {
  shell.close();
  fs.rmSync(directory, { recursive: true, maxRetries: 10, force: true });
});

function make(settings: { softSeconds?: number; logLimit?: number } = {}): BashShell {
  const env = { PATH: process.env.PATH ?? "", HOME: directory, LANG: "C.UTF-8" };
  return new BashShell(
    "main",
    nodePty as unknown as PtyModule,
    {
      directory,
      workingDir: directory,
      env,
      softSeconds: 10,
      outputLimit: 30_000,
      logLimit: 1 << 26,
      ...settings,
    },
    silent,
    path.join(directory, "main.log"),
  );
}

function run(
  command: string,
  more: Partial<RunCommand> = {},
  signal?: AbortSignal,
): Promise<ObservationBody<"run">> {
  return shell.run({ command, ...more }, signal);
}

function meta(answer: ObservationBody): CmdMetadata {
  return answer.extras.metadata as CmdMetadata;
}

/** What was printed is waited for as an event, from now on. */
function printed(text: string): Promise<void> {
  return new Promise((resolve) => {
    let all = "";
    const listening = shell.onOutput.listen(({ data }) => {
      all += data.toString("latin1");
      if (!all.includes(text)) return;
      listening.dispose();
      resolve();
    });
  });
}

test("a command is answered with its output and status", async () => {
  const answer = await run("echo out; echo err >&2; (exit 3)");
  expect(answer.content).toBe("out\nerr\n");
  expect(meta(answer).exit_code).toBe(3);
  expect(answer.success).toBe(false);
});

test("a shell remembers its directory, variables and the last status", async () => {
  await run("mkdir inner && cd inner && word=kept; false");
  const answer = await run("echo $? $word $PWD");
  expect(answer.content).toBe(`1 kept ${directory}/inner\n`);
  expect(meta(answer).working_dir).toBe(`${directory}/inner`);
});

test("text arrives as it was printed", async () => {
  const text = "ünïcödé 漢字 🙂\t\x1b[1mbold\x1b[0m  trailing  \n\n";
  expect((await run(`cat <<'END'\n${text}END`)).content).toBe(text);
  expect((await run("printf 'a\\r\\nb'")).content).toBe("a\r\nb");
});

test.each([
  ["an unbalanced quote", "echo 'oops", 2],
  ["a syntax error", "for do", 2],
  ["a comment", "# nothing", 0],
  ["a subshell", "(exit 7)", 7],
])("%s ends with its status", async (_, command, status) => {
  expect(meta(await run(command)).exit_code).toBe(status);
  expect((await run("echo usable")).content).toBe("usable\n");
});

test("a long command line and many lines arrive whole", async () => {
  expect((await run(`w=${"x".repeat(200_000)}; echo \${#w}`)).content).toBe("200000\n");
  const lines = Array.from({ length: 5000 }, (_, n) => `line ${n}\n`).join("");
  expect((await run(`cat <<'E'\n${lines}E`, { output_limit: 0 })).content).toBe(lines);
});

test("large output is whole when asked for, else head and tail with the rest in the log", async () => {
  const whole = Array.from({ length: 100_000 }, (_, n) => `${n + 1}\n`).join("");
  expect((await run("seq 1 100000", { output_limit: 0 })).content).toBe(whole);

  const answer = await run("seq 1 20000", { output_limit: 1000 });
  const { left_out_bytes: leftOut = 0, log_start: from = 0, log_end: to = 0 } = meta(answer);
  expect(answer.content.startsWith("1\n2\n")).toBe(true);
  expect(answer.content.endsWith("19999\n20000\n")).toBe(true);
  expect(leftOut).toBeGreaterThan(0);
  const log = fs.readFileSync(path.join(directory, "main.log")).subarray(from, to).toString();
  expect(log).toBe(whole.slice(0, whole.indexOf("20001\n")));
});

test("the log drops its oldest part and keeps positions", async () => {
  shell.close();
  shell = make({ logLimit: 64 << 10 });
  await run("seq 1 100000", { output_limit: 10 });
  const log = fs.readFileSync(path.join(directory, "main.log"));
  expect(log.length).toBe(588_895);
  expect(log.toString("latin1").endsWith("99999\n100000\n")).toBe(true);
  expect(log[0]).toBe(0);
});

test("a printed prompt, mark or environment does not pass for an end", async () => {
  const answer = await run(
    "printf '\\e]7771;P\\a'; set | grep -c PS1=; echo \"${PS1@P}\"; echo last",
  );
  expect(answer.content.endsWith("last\n")).toBe(true);
  expect(meta(answer).exit_code).toBe(0);
});

test("a command past its time goes on, can be typed into, and says so", async () => {
  const first = await run("echo asked; read word; echo got $word", { timeout: 0.1 });
  expect(meta(first)).toMatchObject({ exit_code: -1, timed_out: "hard", state: "running" });
  const answer = await run("this", { is_input: true });
  expect(first.content + answer.content).toBe("asked\ngot this\n");
  expect(meta(answer).exit_code).toBe(0);
});

test("silence is answered early unless it is expected", async () => {
  shell.close();
  shell = make({ softSeconds: 0.1 });
  expect(meta(await run("cat"))).toMatchObject({ exit_code: -1, timed_out: "soft" });
  await shell.interrupt(false);
  await run("", { blocking: true });
  expect(meta(await run("sleep 0.3", { blocking: true })).exit_code).toBe(0);
});

test("a command given meanwhile is refused, or waits when asked", async () => {
  await run("read line", { timeout: 0.05 });
  expect(meta(await run("echo no")).state).toBe("refused");
  const queued = run("echo yes", { queue: true });
  await shell.interrupt(false);
  expect((await queued).content).toBe("yes\n");
});

test("an interrupt ends the program and says so", async () => {
  const up = printed("up");
  const running = run("echo up; sleep 60");
  await up;
  expect(await shell.interrupt(false)).toBe(true);
  expect(meta(await running).exit_code).toBe(130);
  expect(await shell.interrupt(false)).toBe(false);
  expect((await run("echo usable")).content).toBe("usable\n");
});

test("an interrupt ends a loop of programs, whichever moment of theirs it meets", async () => {
  for (let n = 0; n < 30; n += 1) {
    const up = printed("up");
    const running = run("echo up; while :; do sleep 0.005; done");
    await up;
    await shell.interrupt(false);
    expect(meta(await running).exit_code).toBe(130);
    expect((await run(`echo ${n}`)).content).toBe(`${n}\n`);
  }
});

test("a program that handles Ctrl-C gets it once", async () => {
  const up = printed("up");
  const program =
    "count() { n=$((n + 1)); }; trap count INT; echo up; for i in 1 2 3 4; do sleep 0.1; done";
  const running = run(`bash -c '${program}; echo $n felt'`);
  await up;
  await shell.interrupt(false);
  expect((await running).content).toContain("1 felt");
});

test("a program that ignores Ctrl-C is killed by force", async () => {
  const up = printed("up");
  const running = run("bash -c 'trap \"\" INT; echo up; exec sleep 60'");
  await up;
  await shell.interrupt(true);
  expect(meta(await running).exit_code).toBe(137);
});

test("keys reach the program", async () => {
  await run("cat", { timeout: 0.1 });
  const answer = await run("C-d", { is_input: true });
  expect(meta(answer).exit_code).toBe(0);
});

test("Ctrl-D ends the input of one program only", async () => {
  await run("mkfifo go");
  const up = printed("up");
  await run("echo up; read < go; cat; echo first; cat; echo second", { timeout: 0.1 });
  await up;
  const first = printed("first");
  const answer = run("C-d", { is_input: true, timeout: 1 });
  fs.writeFileSync(path.join(directory, "go"), "\n");
  await first;
  expect(meta(await answer).state).toBe("running");
  expect((await run("C-d", { is_input: true })).content).toContain("second");
});

test("cancelling ends the command and leaves the shell usable", async () => {
  await run("word=kept");
  const controller = new AbortController();
  const up = printed("up");
  const running = run("echo up; sleep 60", {}, controller.signal);
  await up;
  controller.abort();
  await expect(running).rejects.toMatchObject({ code: "action.cancelled" });
  expect((await run("echo $word")).content).toBe("kept\n");
});

test("cancelled at any moment, a command is not in the way of the next", async () => {
  for (let n = 0; n < 40; n += 1) {
    const controller = new AbortController();
    const running = run("sleep 60", {}, controller.signal);
    for (let turns = 0; turns < n; turns += 1) await new Promise(setImmediate);
    controller.abort();
    await expect(running).rejects.toMatchObject({ code: "action.cancelled" });
    expect((await run(`echo ${n}`)).content).toBe(`${n}\n`);
  }
});

test.each([
  ["exit", "exit 3", 3],
  ["set -e", "set -e; false", 1],
  ["a kill", "kill -9 $$", 137],
])("after %s the next command finds a new shell that says so", async (_, command, status) => {
  await run("word=lost");
  const answer = await run(command);
  expect(meta(answer)).toMatchObject({ exit_code: status, shell_ended: true });
  const next = await run("echo [$word]");
  expect(next.content).toBe("[]\n");
  expect(meta(next).new_shell).toBe(true);
});

test("exec of another shell is taken over with its environment", async () => {
  await run("cd /; export WORD=kept");
  expect(meta(await run("exec bash")).shell_ended).toBe(true);
  expect((await run("echo $WORD $PWD")).content).toBe("kept /\n");
});

test("background jobs do not block, and what they print is told", async () => {
  const pid = meta(await run("sleep 60 & true")).pid;
  expect(pid).toBeGreaterThan(0);
  await run(`kill ${pid}; mkfifo gate; { read line < gate; echo from behind; } & true`);
  const behind = printed("from behind");
  await run("echo go > gate");
  await behind;
  const answer = await run("echo next");
  expect(answer.content).toContain("next\n");
});

test("NUL in a command is an error, not a hang", async () => {
  await expect(run("echo \0")).rejects.toMatchObject({ code: "shell.command_invalid" });
  expect((await run("echo usable")).content).toBe("usable\n");
});

test("a terminal left without echo processing is mended", async () => {
  await run("stty opost echo onlcr");
  expect((await run("echo a")).content).toBe("a\n");
});

test("a thousand short commands are all right", async () => {
  for (let n = 0; n < 1000; n += 1) {
    const answer = await run(`echo ${n}; (exit ${n % 100})`);
    expect([answer.content, meta(answer).exit_code]).toEqual([`${n}\n`, n % 100]);
  }
});

test("a shell that is closed does not start the next command of a list", async () => {
  for (let round = 0; round < 20; round++) {
    shell = make();
    const up = printed("up");
    const running = run("echo u''p; sleep 600; echo late >> late", { blocking: true });
    await up;
    shell.close();
    await expect(running).rejects.toMatchObject({ code: "shell.closed" });
    await new Promise((resolve) => setTimeout(resolve, 100)); // time for what must not happen
  }
  expect(fs.existsSync(path.join(directory, "late"))).toBe(false);
});
