/**
 * Compares what the rules engine sees in generated texts with what bash runs.
 *
 * `RULES_FUZZ_TEXTS` sets how many texts (1000), `RULES_FUZZ_SEED` which ones.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decideCommand } from "../../src/rules/decision";
import type { ShellWord } from "../../src/rules/shell_words";
import { BashTexts, seededRandom } from "./bash_texts";

const COUNT = Number(process.env["RULES_FUZZ_TEXTS"] ?? 1_000);
const SEED = Number(process.env["RULES_FUZZ_SEED"] ?? 20_261_117);

// Commands succeed and fail in turn, so that branches and loops are taken. The limit ends loops
// that would not end. Each command has a file of its own: bash writes a record in several pieces.
const LOG_COMMAND = `() {
  printf '%s\\0' "$#" "$@" >>"$RULES_LOG/$BASHPID"
  local seen=("$RULES_LOG"/*)
  (( \${#seen[@]} > 20 )) && kill -KILL 0
  return $(( \${#seen[@]} % 2 ))
}`;

// Texts run in one directory and are logged in another, so that `*` stays short.
let scratch = "";
let directory = "";
let bash = "";

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "rules-"));
  directory = join(scratch, "work");
  mkdirSync(directory);
  bash = execFileSync("sh", ["-c", "command -v bash"], { encoding: "utf8" }).trim();
});
afterAll(() => rmSync(scratch, { recursive: true, maxRetries: 5 }), 60_000);

/** The commands of a text that lack a rule, or undefined if it asks for another reason. */
function commandsOf(text: string): (readonly ShellWord[])[] | undefined {
  const place = { workspaces: [directory], cwd: directory };
  const { parts } = decideCommand(text, { allow: [], ask: [], deny: [] }, place);
  if (parts.some(({ verdict, lacksRule }) => verdict !== "allow" && !lacksRule)) return undefined;
  return parts.flatMap(({ lacksRule }) => (lacksRule ? [lacksRule] : []));
}

/** Runs a text in bash without any program, and returns the commands that bash did not find. */
async function ranIn(text: string, log: string): Promise<string[][]> {
  mkdirSync(log);
  const env = {
    PATH: join(scratch, "nothing"),
    LC_ALL: "C.UTF-8",
    RULES_LOG: log,
    "BASH_FUNC_command_not_found_handle%%": LOG_COMMAND,
  };
  const limited = 'ulimit -t 5 -f 1000 -c 0; exec "$0" --norc --noprofile -c "$1"';
  // A process group of its own: what the text leaves running is ended with it.
  const child = spawn(bash, ["-c", limited, bash, text], {
    cwd: directory,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  child.stdout.resume();
  const end = () => child.pid !== undefined && killGroup(child.pid);
  const timer = setTimeout(end, 20_000);
  // Some texts leave a process that waits for a pipe and would never end.
  child.once("exit", () => setTimeout(end, 2_000));
  await once(child, "close");
  clearTimeout(timer);
  end();
  return readdirSync(log).flatMap((name) =>
    loggedCommands(readFileSync(join(log, name), "utf8").split("\0")),
  );
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function loggedCommands(fields: readonly string[]): string[][] {
  const commands: string[][] = [];
  for (let at = 0; at < fields.length - 1;) {
    const count = Number(fields[at]);
    if (at + 1 + count >= fields.length) break; // it was killed while it wrote
    commands.push(fields.slice(at + 1, at + 1 + count));
    at += 1 + count;
  }
  // In the middle of a pipeline `time` is a program, which the engine follows.
  return commands.filter(([name]) => name !== "time");
}

function isSeen(ran: readonly string[], words: readonly ShellWord[]): boolean {
  const [word, ...others] = words;
  if (!word) return ran.length === 0;
  if (word.value !== undefined) return ran[0] === word.value && isSeen(ran.slice(1), others);
  if (!word.splits) return ran.length > 0 && isSeen(ran.slice(1), others);
  return Array.from({ length: ran.length + 1 }, (_, skipped) => skipped).some((skipped) =>
    isSeen(ran.slice(skipped), others),
  );
}

// Texts that the generator found.
test.each(["c1 ~{1..3}", "c1 ~{1,$v}", "c1 >()", "c1 <() a"])(
  "the engine sees the words of %s",
  async (text) => {
    const seen = commandsOf(text) ?? [];
    const ran = await ranIn(text, join(mkdtempSync(join(scratch, "found")), "log"));
    expect(ran).toHaveLength(1);
    expect(ran.filter((each) => !seen.some((words) => isSeen(each, words)))).toEqual([]);
  },
);

test(
  `bash runs no command that the engine does not see, with its words (seed ${SEED})`,
  async () => {
    const texts = new BashTexts(seededRandom(SEED));
    const hidden: { text: string; ran: string[] }[] = [];
    let started = 0;
    let understood = 0;
    let commands = 0;
    const worker = async () => {
      while (started < COUNT) {
        const log = join(scratch, `log${started++}`);
        const text = texts.next();
        const seen = commandsOf(text);
        if (!seen) continue;
        understood++;
        for (const ran of await ranIn(text, log)) {
          commands++;
          if (!seen.some((words) => isSeen(ran, words))) hidden.push({ text, ran });
        }
      }
    };
    await Promise.all(Array.from({ length: 4 }, worker));
    console.log(`rules fuzz: seed ${SEED}, ${understood} of ${COUNT} understood, ${commands} ran`);
    expect(hidden).toEqual([]);
    expect(understood).toBeGreaterThan(COUNT / 10);
    expect(commands).toBeGreaterThan(understood / 2);
  },
  30_000 + COUNT * 100,
);
