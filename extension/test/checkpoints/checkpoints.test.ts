import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  CheckpointWorker,
  type EditorFiles,
  type WriteResult,
} from "../../src/checkpoints/checkpoint_worker";
import { Checkpoints, type RecordedAction } from "../../src/checkpoints/checkpoints";
import type { FileChangeScope } from "../../src/checkpoints/changing_actions";
import { Failure } from "../../src/common/failure";
import { observe, type ObservationBody } from "../../src/protocol";
import { silent } from "../common/silent";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const PYTHON = process.env.BASCULE_TEST_PYTHON ?? path.join(ROOT, ".venv/bin/python");
const SCRIPT = path.join(ROOT, "src/bascule/checkpoints/_worker_main.py");

/** Files that are open in an editor that writes what it is given. */
class FakeEditor implements EditorFiles {
  unsaved: string[] = [];
  saved: string[] = [];
  readonly written: string[] = [];
  result: WriteResult = { written: true };

  openFiles(): { unsaved: string[]; saved: string[] } {
    return this;
  }

  write(file: string, content: Buffer): Promise<WriteResult> {
    this.written.push(file);
    if ("written" in this.result) fs.writeFileSync(file, content);
    return Promise.resolve(this.result);
  }
}

let directory: string;
let workspace: string;
let editor: FakeEditor;
let checkpoints: Checkpoints;
let worker: CheckpointWorker | undefined;
let unavailable: string[];
let off: string;
let isTrusted: boolean;
let onWorkerEnd: () => void;
const opened: Checkpoints[] = [];

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), "bascule-checkpoints-"));
  workspace = path.join(directory, "workspace");
  fs.mkdirSync(workspace);
  editor = new FakeEditor();
  unavailable = [];
  off = "";
  isTrusted = true;
  onWorkerEnd = () => undefined;
  worker = undefined;
  checkpoints = make([PYTHON]);
});

afterEach(() => {
  for (const each of opened.splice(0)) each.dispose();
  fs.rmSync(directory, { recursive: true, maxRetries: 10, force: true });
});

function make(pythons: string[]): Checkpoints {
  const made = new Checkpoints({
    whyOff: () => off,
    isTrusted: () => isTrusted,
    start: async (onNotice, onEnd) => {
      const store = path.join(directory, "store");
      const settings = { pythons, script: SCRIPT, store, workspace, mostBytes: 1 << 30 };
      const ended = (why: string): void => {
        onEnd(why);
        onWorkerEnd();
      };
      worker = await CheckpointWorker.start(settings, editor, onNotice, ended);
      return worker;
    },
    onUnavailable: (why) => unavailable.push(why),
    log: silent,
  });
  opened.push(made);
  return made;
}

function action(
  scope: FileChangeScope = {},
  kind = "run",
  signal = new AbortController().signal,
): RecordedAction {
  return { kind, agent: "ann", title: "a title", scope, signal };
}

/** Performs `work` as an action of an agent. */
function perform(work: () => void, what = action()): Promise<ObservationBody> {
  return checkpoints.around(what, () => {
    work();
    return Promise.resolve(observe("null", "", {}));
  });
}

const file = (name: string): string => path.join(workspace, name);
const write = (name: string, text: string): void => fs.writeFileSync(file(name), text);
const read = (name: string): string => fs.readFileSync(file(name), "utf8");

async function restore(checkpoint: number | undefined, more: object = {}) {
  const args = { checkpoint: checkpoint ?? -1, ...more };
  return (await checkpoints.ask("restore", args)).extras;
}

describe("checkpoints", () => {
  test("take back what an action changed, and a restore is undone in the same way", async () => {
    write("a", "one\n");
    const { checkpoint } = await perform(() => {
      fs.rmSync(file("a"));
      write("b", "new\n");
    });
    expect(checkpoint).toBeGreaterThan(0);

    const observed = await checkpoints.execute("restore", { checkpoint: checkpoint ?? 0 });

    expect(observed).toMatchObject({
      observation: "restore",
      content: "restored a\nremoved b",
      extras: { restored: ["a"], removed: ["b"], conflicts: [] },
    });
    expect(read("a")).toBe("one\n");
    expect(observed.checkpoint).toBe(observed.extras.checkpoint);
    expect(await restore(observed.checkpoint)).toMatchObject({ restored: ["b"], removed: ["a"] });
  });

  test("have the agent's name, and none for an action that changes nothing", async () => {
    write("a", "one\n");
    expect(await perform(() => undefined)).not.toHaveProperty("checkpoint");
    await perform(() => write("a", "two\n"), action({ path: file("a"), followsLinks: true }));
    const { extras } = await checkpoints.ask("checkpoints", {});
    expect(extras.items).toMatchObject([{ agent: "ann", title: "a title", files: 1 }]);
  });

  test("end also if the action fails", async () => {
    const failing = checkpoints.around(action(), () => {
      write("a", "two\n");
      return Promise.reject(new Failure("path.invalid", "no"));
    });
    await expect(failing).rejects.toMatchObject({ code: "path.invalid" });
    const { extras } = await checkpoints.ask("checkpoints", {});
    expect(extras.items).toMatchObject([{ files: 1, is_interrupted: false }]);
  });

  test("are not waited for by an action that is cancelled, which does not begin", async () => {
    const controller = new AbortController();
    let hasBegun = false;
    const acting = checkpoints.around(action({}, "run", controller.signal), () => {
      hasBegun = true;
      return Promise.resolve(observe("null", "", {}));
    });
    controller.abort();
    await expect(acting).rejects.toMatchObject({ code: "action.cancelled" });
    expect(hasBegun).toBe(false);
    await checkpoints.ask("checkpoints", {}); // after `begin` and `end`
  });

  test("write open files by the editor, and leave unsaved ones alone", async () => {
    for (const name of ["open", "unsaved", "closed"]) write(name, "one\n");
    const { checkpoint } = await perform(() => {
      for (const name of ["open", "unsaved", "closed"]) write(name, "two\n");
    });
    editor.saved = [file("open"), file("unsaved")];
    editor.unsaved = [file("unsaved")];

    expect(await restore(checkpoint)).toMatchObject({
      restored: ["closed", "open"],
      conflicts: [{ path: "unsaved", reason: "it has unsaved changes in the editor" }],
    });
    expect(editor.written).toEqual([file("open")]);
    expect(["open", "unsaved", "closed"].map(read)).toEqual(["one\n", "two\n", "one\n"]);
  });

  test("name a file that the editor refuses to write", async () => {
    write("a", "one\n");
    const { checkpoint } = await perform(() => write("a", "two\n"));
    editor.saved = [file("a")];
    editor.result = { refused: "somebody types" };
    expect(await restore(checkpoint)).toMatchObject({
      conflicts: [{ path: "a", reason: "somebody types" }],
    });
  });

  test("count what the user saves during a command as the user's", async () => {
    write("mine", "one\n");
    write("theirs", "one\n");
    const { checkpoint } = await perform(() => {
      write("mine", "two\n");
      checkpoints.saved(file("mine"));
      write("theirs", "two\n");
    });
    expect((await restore(checkpoint)).restored).toEqual(["theirs"]);
  });

  test("count what a VS Code command of an agent saves as the agent's", async () => {
    write("a", "one\n");
    const { checkpoint } = await perform(
      () => {
        write("a", "two\n");
        checkpoints.saved(file("a"));
      },
      action({}, "vscode_command"),
    );
    expect((await restore(checkpoint)).restored).toEqual(["a"]);
  });

  test("continue after the worker was killed, and say so to the agent", async () => {
    write("a", "one\n");
    const first = await perform(() => write("a", "two\n"));
    const killed = worker;
    const seen = await checkpoints.around(action(), async () => {
      const ended = new Promise<void>((resolve) => (onWorkerEnd = resolve));
      process.kill(killed?.pid ?? 0, "SIGKILL");
      await ended;
      write("a", "three\n");
      return observe("null", "", {});
    });
    expect(seen).not.toHaveProperty("checkpoint");
    expect(seen.note).toContain("The process that records checkpoints ended");
    const after = await perform(() => write("a", "four\n"));
    expect(after).not.toHaveProperty("note");
    expect(worker?.pid).not.toBe(killed?.pid);
    await restore(after.checkpoint);
    expect(read("a")).toBe("three\n");
    expect(first.checkpoint).toBeDefined();
  });

  test("record an action whose worker was killed just before", async () => {
    write("a", "one\n");
    await perform(() => write("a", "two\n"));
    process.kill(worker?.pid ?? 0, "SIGKILL"); // its end is noticed while the action begins
    const seen = await perform(() => write("a", "three\n"));
    expect(seen.note).toContain("The process that records checkpoints ended");
    await restore(seen.checkpoint);
    expect(read("a")).toBe("two\n");
  });

  test("say what they leave out to each agent, once", async () => {
    fs.mkdirSync(file("node_modules"));
    await checkpoints.prepare();
    expect(checkpoints.limitNotes.join()).toContain("node_modules");
    const seen = await perform(() => write("a", "one\n"));
    expect(seen.note).toContain("Checkpoints leave out node_modules");
    expect(await perform(() => write("a", "two\n"))).not.toHaveProperty("note");
    const other = await perform(() => write("a", "3\n"), { ...action(), agent: "bob" });
    expect(other.note).toContain("node_modules");
  });

  test("use the first Python that can run the worker", async () => {
    const old = path.join(directory, "old-python");
    fs.writeFileSync(old, '#!/bin/sh\necho \'{"op": "failed", "text": "too old"}\'\n');
    fs.chmodSync(old, 0o755);
    checkpoints = make([path.join(directory, "none"), old, PYTHON]);
    expect((await perform(() => write("a", "one\n"))).checkpoint).toBe(1);
    expect(checkpoints.limitNotes).toEqual([]);
  });

  test("are missing without Python: actions run, and user and agent are told once", async () => {
    const none = path.join(directory, "none");
    checkpoints = make([none]);
    await checkpoints.prepare();
    const seen = await perform(() => write("a", "one\n"));
    expect(read("a")).toBe("one\n");
    expect(seen).not.toHaveProperty("checkpoint");
    expect(seen.note).toContain("There are no checkpoints: checkpoints need Python 3.11");
    expect(await perform(() => write("a", "two\n"))).not.toHaveProperty("note");
    expect(unavailable).toHaveLength(1);
    expect(unavailable[0]).toContain(none);
    await expect(checkpoints.ask("checkpoints", {})).rejects.toMatchObject({
      code: "machine.missing_tool",
    });
  });

  test("are off by the setting: no worker starts", async () => {
    off = "the setting is off";
    await checkpoints.prepare();
    expect(await perform(() => write("a", "one\n"))).not.toHaveProperty("checkpoint");
    expect(worker).toBeUndefined();
    expect(checkpoints.limitNotes).toEqual(["There are no checkpoints: the setting is off"]);
    await expect(checkpoints.ask("checkpoints", {})).rejects.toMatchObject({
      code: "capability.missing",
    });
  });

  test("are not prepared in a workspace that is not trusted", async () => {
    isTrusted = false;
    await checkpoints.prepare();
    expect(worker).toBeUndefined();
  });

  test("of a wrong number fail with the worker's code", async () => {
    await expect(restore(7)).rejects.toMatchObject({ code: "checkpoint.not_found" });
  });
});
