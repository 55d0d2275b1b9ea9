import { describe, expect, it } from "vitest";
import { scriptRequest, RunConsent, type Grant } from "../../src/bridge/consent";
import { partsOf, summaryOf, type ConsentRequest } from "../../src/consent/request";

function wants(command: string, path?: string): ConsentRequest {
  const paths = path ? [{ given: path, real: path, isWritten: true }] : [];
  return scriptRequest("vscode/executeCommand", "a script", partsOf({ command }), paths);
}

function consent(
  answer: Grant,
  settings: { isTrusted?: boolean; isAllowed?: boolean } = {},
): { consent: RunConsent; asked: string[]; always: string[] } {
  const asked: string[] = [];
  const always: string[] = [];
  const made = new RunConsent({
    isTrusted: () => settings.isTrusted ?? true,
    isAllowed: () => settings.isAllowed ?? false,
    ask: (question) => {
      asked.push(summaryOf(question));
      return Promise.resolve(answer);
    },
    allowAlways: (what) => {
      always.push(what);
      return Promise.resolve();
    },
  });
  return { consent: made, asked, always };
}

const { signal } = new AbortController();

describe("what a run may do", () => {
  it("asks each time when it is allowed once", async () => {
    const { consent: made, asked } = consent("once");
    await made.admit("r", "x.y", wants("x.y"), signal);
    await made.admit("r", "x.y", wants("x.y"), signal);
    expect(asked).toEqual(["vscode/executeCommand x.y", "vscode/executeCommand x.y"]);
  });

  it("remembers for a run and no longer, and for no other", async () => {
    const { consent: made, asked } = consent("run");
    await made.admit("r", "x.y", wants("?"), signal);
    await made.admit("r", "x.y", wants("?"), signal);
    expect(asked).toHaveLength(1);
    await made.admit("other", "x.y", wants("?"), signal);
    await made.admit("r", "x.z", wants("?"), signal);
    made.forget("r");
    await made.admit("r", "x.y", wants("?"), signal);
    expect(asked).toHaveLength(4);
  });

  it("writes down what is allowed for good", async () => {
    const { consent: made, always } = consent("always");
    await made.admit("r", "x.y", wants("?"), signal);
    expect(always).toEqual(["x.y"]);
  });

  it("asks once for many at a time", async () => {
    const { consent: made, asked } = consent("once");
    await Promise.all([1, 2, 3].map(() => made.admit("r", "x.y", wants("?"), signal)));
    expect(asked).toHaveLength(1);
  });

  it("asks one after the other about what differs, until it is granted", async () => {
    const { consent: made, asked } = consent("run");
    await Promise.all(["1", "2", "3"].map((n) => made.admit("r", "edits", wants(n), signal)));
    expect(asked).toHaveLength(1);
  });

  it("asks about protected files whatever was granted", async () => {
    const { consent: made, asked } = consent("run", { isAllowed: true });
    await made.admit("r", "edits", wants("?", "/w/a.txt"), signal);
    await made.admit("r", "edits", wants("?", "/w/.vscode/tasks.json"), signal);
    await made.admit("r", "edits", wants("?", "/w/.vscode/tasks.json"), signal);
    expect(asked).toHaveLength(2);
  });

  it("asks nobody when the settings allow it, and nobody when the workspace is not trusted", async () => {
    const allowed = consent(undefined, { isAllowed: true });
    await allowed.consent.admit("r", "x.y", wants("?"), signal);
    const untrusted = consent("always", { isTrusted: false, isAllowed: true });
    await expect(untrusted.consent.admit("r", "x.y", wants("?"), signal)).rejects.toMatchObject({
      code: "bridge.not_allowed",
    });
    expect([...allowed.asked, ...untrusted.asked]).toEqual([]);
  });

  it("takes a dismissed question for a no", async () => {
    await expect(
      consent(undefined).consent.admit("r", "x.y", wants("x.y"), signal),
    ).rejects.toThrow("The user did not allow it: vscode/executeCommand x.y");
  });
});
