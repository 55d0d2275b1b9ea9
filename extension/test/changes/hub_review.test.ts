/** The review on the hub's page: what is sent, and what answers do. */
import { afterEach, expect, test, vi } from "vitest";
import { Failure } from "../../src/common/failure";
import type { ReviewTarget } from "../../src/hub/messages";
import type { Hunk } from "../../src/review/hunks";
import { HubReview, type ChangeReviewer } from "../../src/changes/hub_review";
import { ReviewedFile } from "../../src/review/reviewed_file";
import { silent } from "../common/silent";

afterEach(() => {
  vi.useRealTimers();
});

function changed(path: string, before: string, after: string, agent = "Ann"): ReviewedFile {
  const file = new ReviewedFile(path, before.split("\n"), false);
  file.wrote(agent, after.split("\n"));
  file.show(after.split("\n"), "person");
  return file;
}

/** Changes only the model, where the window would change an editor. */
class ModelReviewer implements ChangeReviewer {
  /** Paths whose editor shows another text. */
  readonly typedIn = new Set<string>();
  beforeUndo: () => void = () => undefined;

  constructor(private readonly files: ReviewedFile[]) {}

  current(path: string): ReviewedFile {
    const file = this.files.find((each) => each.path === path);
    if (!file || this.typedIn.has(path)) throw new Failure("edit.conflict", `${path} is stale`);
    return file;
  }

  keep(file: ReviewedFile, hunk: Hunk): void {
    file.keep(hunk);
  }

  keepFile(file: ReviewedFile): void {
    file.keepAll();
  }

  undo(file: ReviewedFile, hunk: Hunk): Promise<void> {
    file.undo(hunk);
    return Promise.resolve();
  }

  undoFile(file: ReviewedFile, isCurrent: () => boolean): Promise<void> {
    this.beforeUndo();
    if (!isCurrent()) return Promise.reject(new Failure("edit.conflict", `${file.path} is stale`));
    file.undoAll();
    return Promise.resolve();
  }
}

function review(...files: ReviewedFile[]) {
  const reviewer = new ModelReviewer(files);
  const pending = {
    get pending() {
      return files.filter((file) => file.isPending);
    },
  };
  const hub = new HubReview(pending, reviewer, (path) => path.replace("/w/", ""), silent);
  const target = (index: number, hunk?: number): ReviewTarget => {
    const { id: file, version } = hub.list().files[index] ?? { id: "", version: "" };
    return { file, version, ...(hunk === undefined ? {} : { hunk }) };
  };
  return { hub, reviewer, target };
}

test("the list has each file with its agents, hunks and lines", () => {
  const gone = new ReviewedFile("/w/gone", ["x", "y", ""], false);
  gone.wasRemoved("Bob", { bytes: Buffer.from("x\ny\n"), mode: 0o644 });
  const made = new ReviewedFile("/w/made", [""], true);
  made.wrote("Bob", ["new", ""]);
  made.show(["new", ""], "person");
  const { hub } = review(changed("/w/a", "1\n2\n3\n4\n", "one\n2\n3\nfour\n5\n"), gone, made);
  const listed = hub.list();
  expect(listed.more).toBe(0);
  expect(listed.files).toMatchObject([
    { name: "a", agents: ["Ann"], change: "changed", hunks: 2, added: 3, removed: 2 },
    { name: "gone", agents: ["Bob"], change: "removed", hunks: 0, added: 0, removed: 2 },
    { name: "made", agents: ["Bob"], change: "created", hunks: 1, added: 1, removed: 0 },
  ]);
});

test("a list is bounded, and says how many files it leaves out", () => {
  const many = Array.from({ length: 500 }, (_, n) => changed(`/w/${n}`, "a", "b"));
  const { files, more } = review(...many).hub.list();
  expect([files.length, more]).toEqual([200, 300]);
  const long = Array.from({ length: 200 }, (_, n) => {
    const file = changed(`/w/${n}${"ж".repeat(1000)}`, "a", "b");
    for (let agent = 0; agent < 10; agent++) file.wrote(`${agent}${"ж".repeat(1000)}`, ["b"]);
    return file;
  });
  const listed = review(...long).hub.list();
  expect(Buffer.byteLength(JSON.stringify(listed))).toBeLessThan(128 << 10);
  expect(listed.files.length + listed.more).toBe(200);
  expect(listed.files.length).toBeGreaterThan(10);
});

test("hidden characters are spelled out in names, agents and lines", () => {
  const { hub, target } = review(changed("/w/a\n\u202eb", "a", "x\x1b[2J\u202ey", "An\x1bn\u2066"));
  const sent = JSON.stringify([hub.list(), hub.show(target(0))]);
  expect(sent).toContain("⟨ESC⟩");
  expect(sent).toContain("⟨U+202E⟩");
  expect(sent).not.toMatch(/\\u001b|\\n|[\u202e\u2066]/);
});

test("the lines of a file are bounded, and say where something is left out", () => {
  const lines = (word: string): string =>
    Array.from({ length: 1100 }, (_, n) => `${word} ${n}`).join("\n");
  const long = review(changed("/w/a", "x", "y".repeat(5000)));
  const [hunk] = long.hub.show(long.target(0)).hunks;
  expect([hunk?.is_whole, hunk?.added[0]?.length]).toEqual([false, 501]);
  const many = review(changed("/w/a", lines("old"), lines("new")));
  const shown = many.hub.show(many.target(0));
  expect(shown.hunks[0]?.is_whole).toBe(false);
  expect(shown.hunks.flatMap(({ removed, added }) => [...removed, ...added]).length).toBe(2000);
  const apart = (word: string): string =>
    Array.from({ length: 300 }, (_, n) => `${word} ${n}\nsame`).join("\n");
  const hunks = review(changed("/w/a", apart("old"), apart("new")));
  const found = hunks.hub.show(hunks.target(0));
  expect([found.hunks.length, found.more]).toEqual([200, 100]);
});

test("one hunk is kept and another undone", async () => {
  const file = changed("/w/a", "1\n2\n3\n", "one\n2\nthree\n");
  const { hub, target } = review(file);
  expect(hub.show(target(0)).hunks).toEqual([
    { line: 1, removed: ["1"], added: ["one"], is_whole: true },
    { line: 3, removed: ["3"], added: ["three"], is_whole: true },
  ]);
  await hub.answer({ answer: "keep", files: [target(0, 0)], by: "ann" });
  expect(hub.list().files[0]?.hunks).toBe(1);
  await hub.answer({ answer: "undo", files: [target(0, 0)], by: "ann" });
  expect(file.text.join("\n")).toBe("one\n2\n3\n");
  expect(hub.list()).toEqual({ files: [], more: 0 });
});

test("nothing is done if one of the files has changed since it was shown", async () => {
  const [first, second] = [changed("/w/a", "1", "one"), changed("/w/b", "2", "two")];
  const { hub, target } = review(first, second);
  const files = [target(0), target(1)];
  second.wrote("Ann", ["deux"]);
  second.show(["deux"], "person");
  for (const answer of ["keep", "undo"] as const) {
    const answering = hub.answer({ answer, files, by: "ann" });
    await expect(answering).rejects.toThrow("b has changed since this was shown");
  }
  expect(() => hub.show(files[1] ?? { file: "", version: "" })).toThrow("b has changed");
  expect([first.text, first.base, second.text]).toEqual([["one"], ["1"], ["deux"]]);
  expect(hub.list().files.length).toBe(2);
});

test("a file that its editor shows with another text, or that was reviewed, is left alone", async () => {
  const file = changed("/w/a", "1", "one");
  const { hub, reviewer, target } = review(file);
  const shown = target(0);
  reviewer.typedIn.add("/w/a");
  await expect(hub.answer({ answer: "undo", files: [shown], by: "" })).rejects.toThrow("stale");
  reviewer.typedIn.clear();
  file.keepAll();
  const late = hub.answer({ answer: "undo", files: [shown], by: "" });
  await expect(late).rejects.toMatchObject({ code: "edit.conflict" });
  expect(file.text).toEqual(["one"]);
});

test("an agent's edit between the check and the undo is not lost", async () => {
  const [first, second] = [changed("/w/a", "1", "one"), changed("/w/b", "2", "two")];
  const { hub, reviewer, target } = review(first, second);
  const files = [target(0), target(1)];
  reviewer.beforeUndo = () => {
    if (first.isPending) return;
    second.wrote("Ann", ["deux"]);
    second.show(["deux"], "person");
  };
  const undoing = hub.answer({ answer: "undo", files, by: "ann" });
  await expect(undoing).rejects.toThrow("/w/b is stale. Done before that: 1 of 2 files");
  expect([first.text, second.text]).toEqual([["1"], ["deux"]]);
});

test("many changes make one message", () => {
  vi.useFakeTimers();
  const { hub } = review(changed("/w/a", "1", "one"));
  let count = 0;
  hub.onChanged.listen(() => (count += 1));
  for (let n = 0; n < 100; n++) hub.changed();
  vi.runAllTimers();
  expect(count).toBe(1);
  hub.changed();
  hub.dispose();
  vi.runAllTimers();
  expect(count).toBe(1);
});

test("the list is sent again after a refused request, although no file changes", async () => {
  vi.useFakeTimers();
  const { hub, reviewer, target } = review(changed("/w/a", "1", "one"));
  let sent = 0;
  hub.onChanged.listen(() => (sent += 1));
  reviewer.typedIn.add("/w/a"); // the editor does not show the text yet
  expect(() => hub.show(target(0))).toThrow("stale");
  await vi.advanceTimersByTimeAsync(200);
  expect(sent).toBe(1);
  const answer = hub.answer({ answer: "keep", files: [target(0)], by: "ann" });
  await expect(answer).rejects.toThrow("stale");
  await vi.advanceTimersByTimeAsync(200);
  expect(sent).toBe(2);
  reviewer.typedIn.clear();
  reviewer.beforeUndo = () => {
    throw new Failure("edit.conflict", "stale");
  };
  const late = hub.answer({ answer: "undo", files: [target(0)], by: "ann" });
  await expect(late).rejects.toThrow("stale");
  await vi.advanceTimersByTimeAsync(200);
  expect(sent).toBe(3);
});
