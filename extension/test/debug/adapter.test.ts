/** The debug adapter, as VS Code's own test client sees it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DebugClient } from "@vscode/debugadapter-testsupport";
import type { DebugProtocol } from "@vscode/debugprotocol";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const BASCULE = resolve(import.meta.dirname, "../../../.venv/bin/bascule");

const NET = `\
pnml:
  net:
    - id: sums
      page:
        - id: main
          place:
            - {id: numbers, marking: [1, 2]}
            - {id: done}
          transition:
            - id: double
              arcs: [{source: numbers}, {target: done}]
              inscriptions:
                - id: twice
                  code: |
                    number = token
                    result = 2 * number
                    print(f"twice {number}")
                    return result
`;
const PLACE = 8;
const TRANSITION = 10;
const CODE = 16;

describe("a net in VS Code's debug client", () => {
  let directory: string;
  let program: string;
  let client: DebugClient;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "adapter-"));
    program = join(directory, "sums.evolve.yaml");
    writeFileSync(program, NET);
    client = new DebugClient(BASCULE, "debug-adapter", "evolve");
    client.defaultTimeout = 15_000;
    await client.start();
  });

  afterEach(async () => {
    await client.stop();
    rmSync(directory, { recursive: true });
  });

  async function locals(): Promise<Record<string, string>> {
    const { stackFrames } = (await client.stackTraceRequest({ threadId: 1 })).body;
    const { scopes } = (await client.scopesRequest({ frameId: stackFrames[0]?.id ?? 0 })).body;
    const variablesReference = scopes[0]?.variablesReference ?? 0;
    const { variables } = (await client.variablesRequest({ variablesReference })).body;
    return Object.fromEntries(variables.map(({ name, value }) => [name, value]));
  }

  const evaluate = async (expression: string): Promise<string> =>
    (await client.evaluateRequest({ expression })).body.result;

  const stoppedAt = (reason: string, line: number): Promise<DebugProtocol.StackTraceResponse> =>
    client.assertStoppedLocation(reason, { path: program, line });

  test("runs to its end without a breakpoint", async () => {
    await Promise.all([
      client.configurationSequence(),
      client.launch({ program }),
      client.assertOutput("stdout", "twice 1\ntwice 2\n"),
      client.waitForEvent("terminated"),
    ]);
  });

  test("halts in its code, with locals, and evaluates there", async () => {
    await client.hitBreakpoint({ program }, { path: program, line: CODE });

    expect(await locals()).toMatchObject({ number: "1" });
    expect(await evaluate("number + 41")).toBe("42");
    await Promise.all([client.nextRequest({ threadId: 1 }), stoppedAt("step", CODE + 1)]);
    expect(await locals()).toMatchObject({ number: "1", result: "2" });
    await Promise.all([client.continueRequest({ threadId: 1 }), stoppedAt("breakpoint", CODE)]);
    expect(await locals()).toMatchObject({ number: "2" });
    await Promise.all([client.continueRequest({ threadId: 1 }), client.waitForEvent("terminated")]);
  });

  test("halts at a place when tokens have come", async () => {
    await client.hitBreakpoint({ program }, { path: program, line: PLACE });

    expect(await evaluate("done")).toBe("[2]");
  });

  test("halts at a transition before it fires, and steps by firing", async () => {
    await client.hitBreakpoint({ program }, { path: program, line: TRANSITION });
    expect(await evaluate("token")).toBe("1");
    await client.setBreakpointsRequest({ source: { path: program }, breakpoints: [] });

    await Promise.all([client.nextRequest({ threadId: 1 }), stoppedAt("step", TRANSITION)]);

    expect(await evaluate("(token, done)")).toBe("(2, [2])");
  });

  test("steps from a transition into its code", async () => {
    await client.hitBreakpoint({ program }, { path: program, line: TRANSITION });

    await Promise.all([client.stepInRequest({ threadId: 1 }), stoppedAt("step", CODE - 1)]);
    expect(await evaluate("token")).toBe("1");
  });

  test("refuses what it does not know, and goes on", async () => {
    await expect(client.customRequest("madeUp")).rejects.toThrow("no request 'madeUp'");
    await client.hitBreakpoint({ program }, { path: program, line: CODE });
  });
});
