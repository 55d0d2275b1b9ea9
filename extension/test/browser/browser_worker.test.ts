import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BrowserWorker, findChromium } from "../../src/browser/browser_worker";
import { silent } from "../common/silent";

/** Stands in for Python with our package: says what it was told, and dies when it is told so. */
const WORKER = `#!/usr/bin/env node
const fs = require("node:fs");
if (process.argv[3] === "-c") { console.log("/usr/bin/a-browser"); process.exit(); }
require("node:readline").createInterface(process.stdin).on("line", (line) => {
  const order = JSON.parse(line);
  const say = (message) => process.stdout.write(JSON.stringify(message) + "\\n");
  if (order.op === "start") { fs.writeFileSync("told", line); say({ op: "ready" }); }
  if (order.op === "cancel") fs.writeFileSync("cancelled", order.id);
  if (order.op !== "act" || order.args.url === "wait") return;
  if (order.args.url === "die") process.exit(1);
  if (order.args.url === "fail") say({ op: "failed", id: order.id, error: { code: "browser.crashed", message: "gone", detail: {} } });
  else say({ op: "done", id: order.id, observation: { kind: "browse", content: order.args.url, extras: { pid: process.pid } } });
});`;

describe("the browser beside a window", () => {
  let directory: string;
  let python: string;
  let worker: BrowserWorker;
  const never = new AbortController().signal;
  const ask = (id: string, url: string, signal = never) =>
    worker.ask(id, { kind: "browse", args: { url }, timeout: undefined }, signal);

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "worker-"));
    python = join(directory, "python");
    writeFileSync(python, WORKER);
    chmodSync(python, 0o755);
    const place = () => ({
      working_dir: directory,
      roots: [directory],
      refused: [["hub", 80] as [string, number]],
    });
    worker = new BrowserWorker(python, "/usr/bin/a-browser", process.env, place, silent);
  });

  afterEach(() => {
    worker.dispose();
    rmSync(directory, { recursive: true, maxRetries: 10 });
  });

  test("is found by asking Python, and missing without it", async () => {
    expect(await findChromium(python, silent)).toBe("/usr/bin/a-browser");
    expect(await findChromium(join(directory, "none"), silent)).toBeUndefined();
  });

  test("starts once, is told what to keep from pages, and answers each by its id", async () => {
    const [one, two] = await Promise.all([ask("1", "a"), ask("2", "b")]);

    expect([one.content, two.content]).toEqual(["a", "b"]);
    expect(one.extras.pid).toBe(two.extras.pid);
    const told = JSON.parse(readFileSync(join(directory, "told"), "utf8")) as {
      settings: { refused: unknown };
    };
    expect(told.settings.refused).toEqual([["hub", 80]]);
  });

  test("that dies fails what waits and is started again", async () => {
    const first = await ask("1", "a");
    await expect(ask("2", "die")).rejects.toMatchObject({ code: "browser.crashed" });
    const again = await ask("3", "a");

    expect(again.extras.pid).not.toBe(first.extras.pid);
  });

  test("passes its failures on with their codes", async () => {
    await expect(ask("1", "fail")).rejects.toMatchObject({
      code: "browser.crashed",
      message: "gone",
    });
  });

  test("is told of a cancelled action, which ends at once", async () => {
    const controller = new AbortController();
    await ask("1", "a");
    const waiting = ask("2", "wait", controller.signal);
    controller.abort();

    await expect(waiting).rejects.toMatchObject({ code: "action.cancelled" });
  });
});
