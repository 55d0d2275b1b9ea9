import { describe, expect, it } from "vitest";
import type { ReviewFile } from "../src/hub/types";
import { byAgent, countText, filesText } from "../src/views/review_text";

function file(name: string, agents: string[], more: Partial<ReviewFile> = {}): ReviewFile {
  return {
    id: name,
    version: "1",
    name,
    agents,
    change: "changed",
    hunks: 1,
    added: 2,
    removed: 3,
    ...more,
  };
}

describe("the list of changes to review", () => {
  it("has a group for each agent, and no file without one", () => {
    const files = [file("a", ["Bob", "Ann"]), file("b", ["Bob"]), file("c", [])];
    const groups = byAgent(files).map(([agent, own]) => [agent, own.map(({ name }) => name)]);
    expect(groups).toEqual([
      ["Ann", ["a"]],
      ["Bob", ["a", "b"]],
      ["an agent", ["c"]],
    ]);
  });

  it("says how much each file and each agent changed", () => {
    expect(countText(file("a", []))).toBe("1 change, +2 −3");
    expect(countText(file("a", [], { change: "created", hunks: 2 }))).toBe(
      "created, 2 changes, +2 −3",
    );
    expect(countText(file("a", [], { change: "removed", hunks: 0 }))).toBe("deleted, +2 −3");
    expect(filesText([file("a", []), file("b", [])])).toBe("2 files, 2 changes, +4 −6");
  });
});
