import { describe, expect, it } from "vitest";
import { visibleRows, topOf, totalOf } from "../src/timeline/virtual_list";

const shape = (count: number, extraHeights: [number, number][] = []) => ({
  count,
  height: 30,
  extraHeights: new Map(extraHeights),
});

describe("a long list", () => {
  it("has few rows in sight, whatever its length", () => {
    const sight = visibleRows(shape(20_000), 300_000, 600);
    expect(sight).toEqual({ first: 9990, end: 10_031, top: 299_700 });
  });

  it("ends where its last row does", () => {
    expect(visibleRows(shape(5), 0, 600)).toEqual({ first: 0, end: 5, top: 0 });
    expect(visibleRows(shape(0), 0, 600)).toEqual({ first: 0, end: 0, top: 0 });
  });

  it("makes room for rows that are open", () => {
    const open = shape(100, [[2, 200]]);
    expect(topOf(open, 2)).toBe(60);
    expect(topOf(open, 3)).toBe(290);
    expect(totalOf(open)).toBe(3200);
    expect(visibleRows(open, 150, 10, 0)).toEqual({ first: 2, end: 3, top: 60 });
  });
});
