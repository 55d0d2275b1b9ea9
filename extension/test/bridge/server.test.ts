import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocket, type ClientOptions } from "ws";
import type { RequestHandlers } from "../../src/bridge/dispatcher";
import { MAX_MESSAGE_BYTES, SUBPROTOCOL } from "../../src/bridge/messages";
import { RunBridge, type RunConnection } from "../../src/bridge/server";
import { Failure } from "../../src/common/failure";
import type { Log } from "../../src/common/log";
import { silent } from "../common/silent";

type Told = Record<string, unknown>;

const cancelled: string[] = [];
const handlers: RequestHandlers = {
  "bridge/ping": () => Promise.resolve({}),
  "t/echo": ({ params }) => Promise.resolve(params["value"]),
  "t/fail": () => Promise.reject(new Failure("chat.unavailable", "No model", { wanted: "m" })),
  "t/throw": () => Promise.reject(new Error("broken")),
  "t/circle": () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    return Promise.resolve(circle);
  },
  "t/large": () => Promise.resolve("x".repeat(MAX_MESSAGE_BYTES)),
  "t/stream": ({ progress }) => {
    for (const piece of [1, 2, 3]) progress(piece);
    return Promise.resolve("end");
  },
  "t/wait": ({ signal }) =>
    new Promise(() => {
      signal.addEventListener("abort", () => cancelled.push((signal.reason as Failure).code));
    }),
  "t/later": ({ onAdded }) => new Promise((resolve) => onAdded(resolve)),
};

/** A script, as small as one can be. */
class Script {
  private readonly inbox: Told[] = [];
  private wake: (() => void) | undefined;

  private constructor(readonly socket: WebSocket) {
    socket.on("message", (data) => {
      this.inbox.push(JSON.parse((data as Buffer).toString()) as Told);
      this.wake?.();
    });
  }

  static async connect(connection: RunConnection, id = "one"): Promise<Script> {
    const script = new Script(open(connection));
    await once(script.socket, "open");
    script.send({ type: "bridge/hello", params: { protocol: 1, id, pid: 7 } });
    expect(await script.next()).toMatchObject({ type: "bridge/hello" });
    return script;
  }

  send(message: Told): void {
    this.socket.send(JSON.stringify(message));
  }

  async next(): Promise<Told> {
    while (!this.inbox.length) await new Promise<void>((resolve) => (this.wake = resolve));
    return this.inbox.shift() as Told;
  }

  async ask(type: string, params: Told = {}, id: string | number = "1"): Promise<Told> {
    this.send({ id, type, params });
    return this.next();
  }

  async end(): Promise<void> {
    this.socket.terminate();
    await once(this.socket, "close");
  }
}

function open({ environment }: RunConnection, options: ClientOptions = {}): WebSocket {
  const headers = { Authorization: `Bearer ${environment["EVOLVE_RUN_BRIDGE_TOKEN"] ?? ""}` };
  const address = environment["EVOLVE_RUN_BRIDGE_ADDR"] ?? "";
  return new WebSocket(address, [SUBPROTOCOL], { headers, ...options });
}

/** The status a handshake is answered with. */
async function status(socket: WebSocket): Promise<number> {
  return new Promise((resolve, reject) => {
    socket.on("unexpected-response", (_, response) => resolve(response.statusCode ?? 0));
    socket.on("open", () => resolve(101));
    socket.on("error", reject);
  });
}

let bridge: RunBridge;
let run: RunConnection;
const lines: string[] = [];
const log: Log = Object.fromEntries(
  ["debug", "info", "warn", "error"].map((level) => [
    level,
    (message: unknown) => lines.push(String(message)),
  ]),
) as unknown as Log;

beforeEach(async () => {
  cancelled.length = lines.length = 0;
  bridge = new RunBridge(handlers, { port: () => 0, version: "1" }, log);
  run = await bridge.open("script.py");
});
afterEach(() => bridge.dispose());

describe("who may connect", () => {
  it("lets a script in by its token, which is in no address and no log", async () => {
    const script = await Script.connect(run);
    expect(script.socket.protocol).toBe(SUBPROTOCOL);
    const token = run.environment["EVOLVE_RUN_BRIDGE_TOKEN"] ?? "";
    expect(Buffer.from(token, "base64url")).toHaveLength(32);
    expect(run.environment["EVOLVE_RUN_BRIDGE_ADDR"]).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\/$/);
    expect(lines.join("\n")).not.toContain(token);
    expect(lines.length).toBeGreaterThan(0);
  });

  it.each([
    ["no token", {}, 401],
    ["a wrong token", { Authorization: "Bearer wrong" }, 401],
    ["another scheme", { Authorization: "Basic wrong" }, 401],
  ])("refuses %s before the upgrade", async (_, headers, expected) => {
    expect(await status(open(run, { headers }))).toBe(expected);
  });

  it.each([
    ["a web page", { origin: "http://localhost:3000" }],
    ["even a page of the server itself", { origin: "http://127.0.0.1" }],
    ["a page without an origin of its own", { origin: "null" }],
    ["another host name, as DNS rebinding has it", { host: "evil.example" }],
    ["a host name without the port", { host: "127.0.0.1" }],
  ])("refuses %s, whatever its token", async (_, { origin, host }: Told) => {
    const token = run.environment["EVOLVE_RUN_BRIDGE_TOKEN"] ?? "";
    const headers: Record<string, string> = { Authorization: `Bearer ${token}` };
    if (typeof origin === "string") headers["Origin"] = origin;
    if (typeof host === "string") headers["Host"] = host;
    expect(await status(open(run, { headers }))).toBe(403);
  });

  it("serves no pages", async () => {
    const address = run.environment["EVOLVE_RUN_BRIDGE_ADDR"]?.replace("ws:", "http:") ?? "";
    const answered = await new Promise<number | undefined>((resolve, reject) => {
      httpRequest(address, (response) => resolve(response.statusCode))
        .on("error", reject)
        .end();
    });
    expect(answered).toBe(426);
  });

  it("gives each run a token of its own, which dies with it", async () => {
    const other = await bridge.open("other.py");
    const [script, stays] = [await Script.connect(run), await Script.connect(other)];
    const closed = once(script.socket, "close");
    run.dispose();
    expect((await closed)[0]).toBe(1001);
    expect(await status(open(run))).toBe(401);
    expect(await stays.ask("t/echo", { value: 1 })).toMatchObject({ result: 1 });
    expect(other.environment["EVOLVE_RUN_BRIDGE_TOKEN"]).not.toBe(
      run.environment["EVOLVE_RUN_BRIDGE_TOKEN"],
    );
  });

  it("stops listening when the last run has ended", async () => {
    run.dispose();
    await expect(status(open(run))).rejects.toThrow("ECONNREFUSED");
  });

  it("says so when its port is taken", async () => {
    const port = Number(new URL(run.environment["EVOLVE_RUN_BRIDGE_ADDR"] ?? "").port);
    const second = new RunBridge(handlers, { port: () => port, version: "1" }, silent);
    await expect(second.open("x")).rejects.toThrow("EADDRINUSE");
    second.dispose();
  });
});

describe("what is answered", () => {
  it("answers under the id that was asked, text or number", async () => {
    const script = await Script.connect(run);
    expect(await script.ask("t/echo", { value: { a: [1] } }, 7)).toEqual({
      id: 7,
      success: true,
      result: { a: [1] },
    });
    expect(await script.ask("t/echo", { value: 2 }, "7")).toMatchObject({ id: "7", result: 2 });
  });

  it.each([
    ["t/fail", "chat.unavailable", "No model"],
    ["t/throw", "bridge.failed", "t/throw failed: broken"],
    ["t/nobody", "bridge.unknown_type", "This window does not know the request 't/nobody'"],
    ["toString", "bridge.unknown_type", "This window does not know the request 'toString'"],
    ["t/circle", "command.not_serializable", "The answer cannot be converted to JSON"],
    ["t/large", "bridge.too_large", `The answer has more than ${MAX_MESSAGE_BYTES} bytes`],
  ])("tells why %s failed", async (type, code, message) => {
    const script = await Script.connect(run);
    expect(await script.ask(type)).toMatchObject({ success: false, error: { code, message } });
  });

  it("takes three mebibytes and cuts off who sends more than four", async () => {
    const script = await Script.connect(run);
    const value = "x".repeat(3 << 20);
    expect((await script.ask("t/echo", { value }))["result"]).toBe(value);
    const closed = once(script.socket, "close");
    script.send({ id: "2", type: "t/echo", params: { value: "x".repeat(5 << 20) } });
    expect((await closed)[0]).toBe(1009);
  });

  it("sends the pieces first", async () => {
    const script = await Script.connect(run);
    script.send({ id: "s", type: "t/stream" });
    const all = [
      await script.next(),
      await script.next(),
      await script.next(),
      await script.next(),
    ];
    expect(all.slice(0, 3).map((each) => (each["params"] as Told)["value"])).toEqual([1, 2, 3]);
    expect(all[3]).toMatchObject({ id: "s", result: "end" });
  });

  it("hands on what is added to a request", async () => {
    const script = await Script.connect(run);
    script.send({ id: "l", type: "t/later" });
    script.send({ type: "$/progress", params: { id: "l", value: "more" } });
    expect(await script.next()).toMatchObject({ id: "l", result: "more" });
  });

  it("keeps the time that was given, and cancels when told to", async () => {
    const script = await Script.connect(run);
    expect(await script.ask("t/wait", { timeout: 20 })).toMatchObject({
      error: { code: "bridge.timed_out", message: "There was no answer in 0.02 seconds" },
    });
    script.send({ id: "c", type: "t/wait" });
    script.send({ type: "$/cancel", params: { id: "c" } });
    expect(await script.next()).toMatchObject({ id: "c", error: { code: "bridge.cancelled" } });
    expect(cancelled).toEqual(["bridge.timed_out", "bridge.cancelled"]);
  });

  it("closes on what is no message", async () => {
    const script = await Script.connect(run);
    const closed = once(script.socket, "close");
    script.socket.send("not json");
    expect((await closed)[0]).toBe(1008);
  });

  it("refuses more at a time than it can hold", async () => {
    const script = await Script.connect(run);
    for (let n = 0; n < 256; n += 1) script.send({ id: `w${n}`, type: "t/wait" });
    expect(await script.ask("t/echo")).toMatchObject({ error: { code: "bridge.busy" } });
  });
});

describe("clients that come and go", () => {
  it("answers only who asked, also when two give the same id", async () => {
    const [one, two] = [await Script.connect(run, "one"), await Script.connect(run, "two")];
    one.send({ id: "1", type: "t/echo", params: { value: "of one" } });
    two.send({ id: "1", type: "t/echo", params: { value: "of two" } });
    expect(await one.next()).toMatchObject({ result: "of one" });
    expect(await two.next()).toMatchObject({ result: "of two" });
  });

  it("keeps scripts apart that say no hello and count from one", async () => {
    const sockets = [open(run), open(run)];
    const answers = await Promise.all(
      sockets.map(async (socket, n) => {
        await once(socket, "open");
        socket.send(JSON.stringify({ id: 1, type: "t/echo", params: { value: n } }));
        return JSON.parse(String(((await once(socket, "message")) as [Buffer])[0])) as Told;
      }),
    );
    expect(answers.map((each) => each["result"])).toEqual([0, 1]);
  });

  it("answers on the new connection what was asked on the old, and does it once", async () => {
    const first = await Script.connect(run);
    first.send({ id: "l", type: "t/later" });
    expect(await first.ask("bridge/ping", {}, "p")).toMatchObject({ success: true });
    await first.end();

    const second = await Script.connect(run);
    second.send({ id: "l", type: "t/later" });
    second.send({ type: "$/progress", params: { id: "l", value: "once" } });
    expect(await second.next()).toMatchObject({ id: "l", result: "once" });
    await second.end();

    const third = await Script.connect(run);
    expect(await third.ask("t/later", {}, "l")).toMatchObject({ id: "l", result: "once" });
  });

  it("tells whoever waits nothing once the run has ended, and cancels it", async () => {
    const script = await Script.connect(run);
    script.send({ id: "w", type: "t/wait" });
    await script.ask("bridge/ping", {}, "p");
    run.dispose();
    expect(cancelled).toEqual(["bridge.closed"]);
  });
});
