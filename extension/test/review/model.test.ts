/** Keep and undo in any order give the text that one would have by hand. */
import { expect, test } from "vitest";
import {
  findShown,
  hunkAtLine,
  hunksBetween,
  isDifference,
  lineEndOf,
  linesOfText,
  shownHunk,
  undoEdit,
  type DocumentEdit,
  type Hunk,
} from "../../src/review/hunks";
import { baseAfterEdit } from "../../src/review/person_edits";
import { ReviewedFile } from "../../src/review/reviewed_file";

/** Milliseconds for 10,000 cases, on a machine that other tests use too. */
const MANY_MS = 120_000;

/** A generator of random numbers with a seed, so that a failure can be repeated. */
function random(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** A part of a text: lines that stay, or lines of the person and what the agent made of them. */
interface Part {
  person: string[];
  agent: string[];
  isChanged: boolean;
}

/** Texts in which every line that stays is unique, so that the hunks are known beforehand. */
function parts(below: (n: number) => number): Part[] {
  let count = 0;
  const lines = (most: number): string[] =>
    Array.from({ length: below(most + 1) }, () => `line ${count++}`);
  const all: Part[] = [];
  for (let n = 1 + below(6); n > 0; n -= 1) {
    const stays = [`stays ${count++}`, ...lines(2)];
    all.push({ person: stays, agent: stays, isChanged: false });
    const [person, agent] = [lines(3), lines(3)];
    if (person.length || agent.length) all.push({ person, agent, isChanged: true });
  }
  if (below(2)) all.push({ person: [""], agent: [""], isChanged: false }); // a final newline
  if (below(3) === 0) all.reverse();
  return all;
}

/** Much faster than `expect`, for what is checked in each of many rounds. */
function ensure(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(`not so: ${what}`);
}

/** Applies an edit to a text, as VS Code does. */
function applied(text: string, edit: DocumentEdit, end: string): string {
  const starts = [0];
  for (let at = text.indexOf(end); at >= 0; at = text.indexOf(end, at + 1))
    starts.push(at + end.length);
  const offset = ({ line, character }: DocumentEdit["from"]): number => {
    ensure(line < starts.length, "the line exists");
    const next = starts[line + 1];
    const length = (next === undefined ? text.length : next - end.length) - (starts[line] ?? 0);
    ensure(character <= length, "the character exists");
    return (starts[line] ?? 0) + character;
  };
  const [from, to] = [offset(edit.from), offset(edit.to)];
  ensure(from <= to, "the range is in order");
  return text.slice(0, from) + edit.text.replaceAll("\n", end) + text.slice(to);
}

test(
  "10,000 random texts: kept and undone hunks give the text one would have by hand",
  () => {
    for (let seed = 0; seed < 10_000; seed += 1) {
      const below = random(seed);
      const end = below(2) ? "\r\n" : "\n";
      const all = parts(below);
      const whole = (side: (part: Part) => string[]): string => all.flatMap(side).join(end);
      let text = whole(({ agent }) => agent);
      const file = new ReviewedFile("f", linesOfText(whole(({ person }) => person)), false);
      file.wrote("agent", linesOfText(text));
      file.show(linesOfText(text), "person");
      const open = all.filter(({ isChanged }) => isChanged);
      expect(file.hunks.length, `seed ${seed}`).toBe(open.length);
      const byHand = new Map<Part, string[]>();
      while (open.length) {
        const index = below(open.length);
        const [part] = open.splice(index, 1) as [Part];
        const hunk = file.hunks[index] as Hunk;
        if (below(2)) {
          byHand.set(part, part.agent);
          file.keep(hunk);
        } else {
          byHand.set(part, part.person);
          text = applied(text, undoEdit(file.base, file.text, hunk), end);
          file.undo(hunk);
          ensure(file.text.join(end) === text, `the text of seed ${seed}`);
        }
        ensure(file.hunks.length === open.length, `the hunks of seed ${seed}`);
      }
      expect(text, `seed ${seed}`).toBe(whole((part) => byHand.get(part) ?? part.person));
      expect(file.isPending).toBe(false);
    }
  },
  MANY_MS,
);

/** Lines that differ. A kept or undone hunk may split into others, but this always decreases. */
function distance(file: ReviewedFile): number {
  return file.hunks.reduce(
    (sum, { baseStart, baseEnd, start, end }) => sum + baseEnd - baseStart + end - start,
    0,
  );
}

test(
  "10,000 random texts of few different lines: undoing all gives the base, keeping all the text",
  () => {
    for (let seed = 0; seed < 10_000; seed += 1) {
      const below = random(seed);
      const some = (): string[] =>
        Array.from({ length: 1 + below(8) }, () => ["", "a", "b"][below(3)] ?? "");
      const [base, written] = [some(), some()];
      const file = new ReviewedFile("f", base, false);
      file.wrote("agent", written);
      file.show(written, "person");
      const expected = [...base];
      let text = written.join("\n");
      for (let left = distance(file); left > 0; left = distance(file)) {
        const hunk = file.hunks[below(file.hunks.length)] as Hunk;
        expect(isDifference(file.base, file.text, file.hunks), `seed ${seed}`).toBe(true);
        if (seed % 2) {
          text = applied(text, undoEdit(file.base, file.text, hunk), "\n");
          file.undo(hunk);
          expect(file.text.join("\n"), `seed ${seed}`).toBe(text);
        } else file.keep(hunk);
        expect(distance(file), `seed ${seed}`).toBeLessThan(left);
      }
      expect(file.text, `seed ${seed}`).toEqual(seed % 2 ? expected : written);
      expect(file.base, `seed ${seed}`).toEqual(seed % 2 ? expected : written);
    }
  },
  MANY_MS,
);

test(
  "10,000 random texts: what a person types between hunks is theirs, whatever is undone",
  () => {
    for (let seed = 0; seed < 10_000; seed += 1) {
      const below = random(seed);
      const all = parts(below);
      const file = new ReviewedFile(
        "f",
        all.flatMap(({ person }) => person),
        false,
      );
      file.wrote(
        "agent",
        all.flatMap(({ agent }) => agent),
      );
      file.show(
        all.flatMap(({ agent }) => agent),
        "person",
      );
      for (let edits = below(4); edits > 0; edits -= 1) {
        const stays = all.filter(({ isChanged }) => !isChanged);
        const part = stays[below(stays.length)] as Part;
        // Inside of the lines that stay: right beside a hunk, see the next tests.
        const lines = [...part.person];
        const at = below(lines.length);
        if (below(2)) lines[at] = `typed ${seed} ${edits}`;
        else if (at > 0) lines.splice(at, 0, `typed ${seed} ${edits}`);
        part.person = part.agent = lines;
        file.show(
          all.flatMap(({ agent }) => agent),
          "person",
        );
      }
      const base = all.flatMap(({ person }) => person);
      expect(file.base, `seed ${seed}`).toEqual(base);
      file.undoAll();
      expect(file.text, `seed ${seed}`).toEqual(base);
    }
  },
  MANY_MS,
);

test.each([
  ["before a hunk", ["a", "b"], ["a", "X", "b"], ["a", "new", "X", "b"], ["a", "new", "b"]],
  ["after a hunk", ["a", "b"], ["a", "X", "b"], ["a", "X", "new", "b"], ["a", "new", "b"]],
  ["in a hunk", ["a", "b"], ["a", "X", "Y", "b"], ["a", "X", "new", "Y", "b"], ["a", "b"]],
  ["where lines were removed", ["a", "X", "b"], ["a", "b"], ["a", "new", "b"], ["a", "X", "b"]],
  ["over a hunk and more", ["a", "b", "c"], ["a", "X", "c"], ["a", "new"], ["a", "b", "c"]],
])("a person types %s", (_, base, before, after, wanted) => {
  expect(baseAfterEdit(base, before, after)).toEqual(wanted);
});

test("undo in the editor brings an undone hunk back, and what was kept stays kept", () => {
  const file = new ReviewedFile("f", ["a", "b", "c", "d", "e"], false);
  const written = ["a", "B", "c", "D", "e"];
  file.wrote("agent", written);
  file.show(written, "person");
  const [first, second] = file.hunks as [Hunk, Hunk];
  file.undo(second);
  file.keep(first);
  expect(file.isPending).toBe(false);
  file.show(written, "history");
  expect(file.hunks).toEqual([second]);
  file.show(["a", "b", "c", "d", "e"], "history"); // past the agent's edit
  expect(file.isPending).toBe(false);
  file.show(written, "history"); // redo
  expect(file.hunks).toEqual([second]);
});

test("undo in the editor after typing moves the base back too", () => {
  const file = new ReviewedFile("f", ["a", "b", "c"], false);
  file.wrote("agent", ["a", "B", "c"]);
  file.show(["a", "B", "c"], "person");
  for (const typed of ["c1", "c12"]) file.show(["a", "B", typed], "person");
  expect(file.base).toEqual(["a", "b", "c12"]);
  file.show(["a", "B", "c"], "history");
  expect(file.base).toEqual(["a", "b", "c"]);
  file.show(["a", "c"], "person"); // the person removes the agent's line
  file.show(["a", "B", "c"], "history");
  expect(file.hunks.length).toBe(1);
});

test("the line end of a text is the more frequent one", () => {
  expect(["", "a", "a\n", "a\r\n", "a\r\nb\n", "a\r\nb\r\nc\n"].map(lineEndOf)).toEqual([
    undefined,
    undefined,
    "\n",
    "\r\n",
    "\n",
    "\r\n",
  ]);
});

test("hunks of an earlier text are recognized as such", () => {
  const [base, text] = [linesOfText("a\nb\nc\n"), linesOfText("a\nX\nc\n")];
  const hunks = hunksBetween(base, text);
  expect(isDifference(base, text, hunks)).toBe(true);
  expect(isDifference(base, linesOfText("new\na\nX\nc\n"), hunks)).toBe(false);
  expect(isDifference(base, linesOfText("a\nX\nc"), hunks)).toBe(false);
  expect(isDifference(base, text, [])).toBe(false);
  const shown = shownHunk(base, text, hunks[0] as Hunk);
  const moved = findShown(base, linesOfText("new\na\nX\nc\n"), shown);
  expect(moved).toEqual({ baseStart: 1, baseEnd: 2, start: 2, end: 3 });
  expect(findShown(base, linesOfText("a\nY\nc\n"), shown)).toBeUndefined();
});

test("a hunk is found by its lines, and a removal by the line after it", () => {
  const found = (base: string[], text: string[]): boolean[] =>
    text.map((_, line) => hunkAtLine(hunksBetween(base, text), text, line) !== undefined);
  expect(found(["a", "b", "c", "d"], ["a", "X", "Y", "d"])).toEqual([false, true, true, false]);
  expect(found(["a", "b", "c"], ["a", "c"])).toEqual([false, true]);
  expect(found(["a", "b", "c"], ["a", "b"])).toEqual([false, true]);
});
