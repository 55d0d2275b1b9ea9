/** Connection, runner and journal together, against a hub on real sockets. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Failure } from "../../src/common/failure";
import { HubConnection, type ConnectionState } from "../../src/hub/connection";
import type { AgentAction } from "../../src/hub/messages";
import { ActionRunner, type OnProgress, type ActionExecutor } from "../../src/hub/action_runner";
import { Journal } from "../../src/hub/journal";
import { observe, type ObservationBody } from "../../src/protocol";
import { silent } from "../common/silent";
import { FakeHub, TOKEN } from "./fake_hub";

let directory: string;
let hub: FakeHub;
let worker: ScriptedWorker;
let runner: ActionRunner;
let connection: HubConnection;
let merges: string[];
let capabilities: string[];

/** Does `read` at once, `run` when it is let. Counts what it was given. */
class ScriptedWorker implements ActionExecutor {
  readonly begun: string[] = [];
  probe: () => Promise<void> = () => Promise.resolve();
  admit: (action: AgentAction, signal: AbortSignal) => Promise<void> = () => Promise.resolve();
  ended = 0;
  private readonly runs: (() => void)[] = [];

  finishRuns(): void {
    for (const finish of this.runs.splice(0)) finish();
  }

  perform(
    action: AgentAction,
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    this.begun.push(action.id);
    const args = action.args as { text?: string; size?: number };
    if (action.action === "rm") return Promise.reject(new Failure("path.not_found", "not there"));
    if (action.action !== "run")
      return Promise.resolve(
        observe("read", args.text ?? "x".repeat(args.size ?? 0), { path: "/f" }),
      );
    onProgress("main", 0, Buffer.from("first"));
    return new Promise((resolve, reject) => {
      this.runs.push(() => resolve(observe("run", "done", { command: "c" }, true)));
      signal.addEventListener("abort", () => reject(new Failure("action.cancelled", "cancelled")));
    });
  }

  approval(): void {
    // nothing waits for one here
  }

  ready(): void {
    // nothing is open here
  }

  end(): void {
    this.ended += 1;
  }
}

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "bascule-test-"));
  hub = new FakeHub();
  await hub.start();
  worker = new ScriptedWorker();
  capabilities = ["read"];
  merges = [];
  open();
  await ready();
});

afterEach(async () => {
  close();
  await hub.stop();
  fs.rmSync(directory, { recursive: true, maxRetries: 10 });
});

function open(token = TOKEN, host = "host"): void {
  const watcher = { began: () => undefined, ended: () => undefined };
  runner = new ActionRunner(new Journal(directory, host), worker, watcher, silent);
  connection = new HubConnection(
    {
      hub: hub.url,
      token,
      identity: { window_id: "w", window_key: "k", host_id: host },
      describe: () => ({
        name: "name",
        folders: [{ name: "f", path: "/f" }],
        vscode_version: "1",
        extension_version: "0.1.0",
        platform: "linux",
        app: "test",
        remote: "local",
        capabilities,
        reviews_merges: true,
      }),
      probe: () => worker.probe(),
      retry: { firstMs: 10, mostMs: 50 },
    },
    runner,
    {
      began: async ({ id, agent }) => {
        await Promise.resolve();
        merges.push(`${id} of ${agent} began`);
        if (id === "broken") throw new Error("not readable");
      },
      ended: (id) => merges.push(`${id} ended`),
      lost: () => merges.push("lost"),
    },
    silent,
  );
  runner.attach(connection);
}

function close(): void {
  connection.dispose();
  runner.dispose();
}

async function becomes(is: ConnectionState["is"]): Promise<ConnectionState> {
  if (connection.state.is === is) return connection.state;
  return new Promise((resolve) => {
    const listening = connection.onState.listen((state) => {
      if (state.is !== is) return;
      listening.dispose();
      resolve(state);
    });
  });
}

const ready = (): Promise<ConnectionState> => becomes("connected");
const answered = (count: number): Promise<void> =>
  hub.until(() => hub.observations.length >= count);

test("a merge is acknowledged once it is prepared, and ended by a lost connection", async () => {
  expect(hub.registrations[0]?.reviews_merges).toBe(true);
  expect(await hub.mergeBegan({ id: "1", agent: "fork a" })).toEqual({});
  expect(merges).toEqual(["1 of fork a began"]);
  hub.mergeEnded("1");
  expect(await hub.mergeBegan({ id: "broken", agent: "fork b" })).toEqual({});
  hub.cut();
  await becomes("connecting");
  expect(merges.slice(1)).toEqual(["1 ended", "broken of fork b began", "lost"]);
});

test("what a window learnt to do while it registered is told", async () => {
  expect(hub.changes).toEqual([]);
  hub.onRegistration = () => {
    capabilities = ["read", "browse"];
    connection.changed({ capabilities });
  };
  hub.cut();
  await hub.until(() => hub.changes.length > 0);
  expect(hub.changes).toEqual([expect.objectContaining({ capabilities: ["read", "browse"] })]);
});

test("a window registers with the nonce, its identity and what it can do", () => {
  expect(hub.registrations).toHaveLength(1);
  expect(hub.registrations[0]).toMatchObject({
    window_id: "w",
    window_key: "k",
    host_id: "host",
    folders: [{ name: "f", path: "/f" }],
    capabilities: ["read"],
  });
});

test("an action is answered by an observation that names it", async () => {
  const id = hub.act("read", { text: "content" });
  await answered(1);
  expect(hub.observations[0]).toMatchObject({
    cause: id,
    observation: "read",
    content: "content",
    source: "environment",
  });
});

test("a failure is an error observation with its code", async () => {
  hub.act("rm", {});
  await answered(1);
  expect(hub.observations[0]).toMatchObject({
    observation: "error",
    content: "not there",
    extras: { error_id: "path.not_found" },
  });
});

test("an id that comes again is answered from the journal and not done again", async () => {
  const id = hub.act("read", { text: "once" });
  await answered(1);
  hub.send({ id, action: "read", args: { text: "twice" }, agent: "tester" });
  await answered(2);
  expect(hub.observations[1]).toEqual(hub.observations[0]);
  expect(worker.begun).toEqual([id]);
});

test("an id that comes again while it runs is answered once", async () => {
  const id = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1);
  hub.send({ id, action: "run", args: {}, agent: "tester" });
  await hub.health(); // what was sent before has come
  worker.finishRuns();
  await answered(1);
  expect(worker.begun).toEqual([id]);
  expect(hub.observations.map((each) => each.cause)).toEqual([id]);
});

test("progress is sent only when somebody watches", async () => {
  hub.act("run", {});
  const watched = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1);
  expect(hub.progress[0]).toEqual({
    cause: watched,
    shell: "main",
    offset: 0,
    data: Buffer.from("first").toString("base64"),
  });
});

test("an observation made while the line is down arrives when it is back", async () => {
  const id = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1);
  hub.cut();
  await becomes("connecting");
  worker.finishRuns();
  await answered(1);
  expect(hub.observations).toMatchObject([{ cause: id, content: "done" }]);
  expect(hub.registrations).toHaveLength(2);
});

test("what the hub has not confirmed is sent again, what it has is not", async () => {
  hub.confirms = false;
  const id = hub.act("read", { text: "kept" });
  await answered(1);
  hub.confirms = true;
  hub.cut();
  await answered(2);
  expect(hub.observations[1]?.cause).toBe(id);
  await hub.health();
  hub.cut();
  await becomes("connecting");
  await ready();
  await hub.health();
  expect(hub.observations).toHaveLength(2);
});

test("a hub that is restarted is found again", async () => {
  await hub.stop();
  await becomes("connecting");
  await hub.start();
  await ready();
  hub.act("read", {});
  await answered(1);
});

test("a new host answers what an earlier one ended, and knows what it left unfinished", async () => {
  const ended = hub.act("read", { text: "before" });
  const unfinished = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1 && hub.observations.length === 1);
  await hub.health(); // what the hub confirmed before has come
  close();
  // The earlier host's process is gone: nobody has this number.
  for (const name of fs.readdirSync(directory))
    fs.renameSync(path.join(directory, name), path.join(directory, "4194999.host.jsonl"));
  open(TOKEN, "next");
  await ready();
  hub.send({ id: ended, action: "read", args: {}, agent: "tester" });
  hub.send({ id: unfinished, action: "run", args: {}, agent: "tester" });
  await answered(3);
  expect(hub.observations[1]).toMatchObject({ cause: ended, content: "before" });
  expect(hub.observations[2]).toMatchObject({
    cause: unfinished,
    extras: { error_id: "outcome.unknown" },
  });
  expect(worker.begun).toEqual([ended, unfinished]);
});

test("an action that overtakes the response to the registration is answered", async () => {
  const unfinished = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1);
  close();
  for (const name of fs.readdirSync(directory))
    fs.renameSync(path.join(directory, name), path.join(directory, "4194999.host.jsonl"));
  let begun = "";
  hub.onRegistration = async () => {
    hub.send({ id: unfinished, action: "run", args: {}, agent: "tester" });
    begun = hub.act("run", {}, { progress: true });
    await hub.health(); // the actions were handled before the registration is answered
  };
  open(TOKEN, "next");
  await ready();
  await hub.until(() => hub.progress.length === 2);
  await answered(1);
  expect(hub.observations).toMatchObject([
    { cause: unfinished, extras: { error_id: "outcome.unknown" } },
  ]);
  expect(hub.progress[1]).toMatchObject({ cause: begun });
});

test("cancelling ends the action, and is confirmed once it has", async () => {
  const id = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1);
  expect(await hub.cancel(id)).toEqual({ known: true });
  await answered(1);
  expect(hub.observations[0]).toMatchObject({ extras: { error_id: "action.cancelled" } });
});

test("an action cancelled before it came is not begun", async () => {
  const id = "5f0cdd5e-0000-4000-8000-000000000000";
  expect(await hub.cancel(id)).toEqual({ known: false });
  hub.send({ id, action: "read", args: {}, agent: "tester" });
  await answered(1);
  expect(hub.observations[0]).toMatchObject({ extras: { error_id: "action.cancelled" } });
  expect(worker.begun).toEqual([]);
});

test("what changes something waits for the consent of what came before, reading does not", async () => {
  let admit!: () => void;
  const admitted = new Promise<void>((resolve) => (admit = resolve));
  worker.admit = (action) => (action.action === "write" ? admitted : Promise.resolve());
  const first = hub.act("write", {});
  const second = hub.act("mkdir", {});
  const reading = hub.act("read", {});
  await answered(1);
  expect(worker.begun).toEqual([reading]);
  admit();
  await answered(3);
  expect(worker.begun).toEqual([reading, first, second]);
});

test("an answer larger than the hub takes becomes an error", async () => {
  hub.act("read", { size: 2 << 20 });
  await answered(1);
  expect(hub.observations[0]).toMatchObject({ extras: { error_id: "message.too_large" } });
});

test("health is answered after a round trip through the editor, and not without", async () => {
  expect(await hub.health()).toMatchObject({ ok: true });
  worker.probe = () => new Promise(() => undefined);
  await expect(hub.health()).rejects.toThrow("timed out");
});

test("a host whose editor is dead does not register until it answers", async () => {
  worker.probe = () => new Promise(() => undefined);
  hub.cut();
  await becomes("connecting");
  await hub.until(() => hub.connections === 2);
  expect(hub.registrations).toHaveLength(1);
  worker.probe = () => Promise.resolve();
  hub.cut();
  await ready();
  expect(hub.registrations).toHaveLength(2);
});

test("a host that another has replaced ends what it runs and tells nothing of it", async () => {
  const id = hub.act("run", {}, { progress: true });
  await hub.until(() => hub.progress.length === 1);
  hub.supersede();
  await hub.health(); // what was sent before has come
  expect(worker.ended).toBe(1);
  hub.act("read", {});
  await answered(1);
  expect(hub.observations.map((each) => each.cause)).not.toContain(id);
});

test("a hub that ends the connection is not tried again", async () => {
  hub.dismiss();
  expect(await becomes("refused")).toMatchObject({
    problem: "The hub closed the connection and does not accept a new one",
  });
});

test("a hub of another protocol is not tried again", async () => {
  hub.refusal = { code: "version.mismatch", message: "the hub speaks another protocol" };
  hub.cut();
  const state = await becomes("refused");
  expect(state).toMatchObject({ problem: "the hub speaks another protocol" });
});

test("an id that belongs to another window is not tried again", async () => {
  hub.status = 409;
  hub.cut();
  expect(await becomes("refused")).toMatchObject({ problem: "taken" });
});

test("a registration that fails for now is tried again", async () => {
  hub.status = 503;
  hub.cut();
  await hub.until(() => hub.registrations.length >= 3);
  hub.status = 200;
  await ready();
});
