import { describe, expect, it } from "vitest";
import { styledPieces, plainText } from "../src/timeline/ansi";
import { diffLines } from "../src/timeline/diff";
import { crumbsOf, isText, imageType } from "../src/views/file_paths";
import { parseAssignments, requestBody } from "../src/views/session_form";

describe("terminal output", () => {
  it("keeps colours and leaves out the rest of what a terminal is told", () => {
    expect(styledPieces("a\x1b[1;31mred\x1b[0m\x1b]0;title\x07\x1b[2Kb")).toEqual([
      { text: "a", style: "" },
      { text: "red", style: "ansi-1 ansi-bold" },
      { text: "b", style: "" },
    ]);
  });

  it("shows the last of what a progress bar wrote over itself", () => {
    expect(plainText("10%\r50%\r100%\r\ndone\n")).toBe("100%\ndone\n");
  });

  it("is text, whatever it holds", () => {
    expect(plainText("<script>alert(1)</script>")).toBe("<script>alert(1)</script>");
  });
});

describe("a change", () => {
  it("is what lies between the lines that stayed", () => {
    expect(diffLines("a\nb\nc\n", "a\nB\nc\n").map((line) => line.sign + line.text)).toEqual([
      " a",
      "-b",
      "+B",
      " c",
    ]);
  });

  it("is all of a new file", () => {
    expect(diffLines("", "x\ny\n")).toHaveLength(2);
  });
});

describe("a path", () => {
  it("is walked from the workspace down", () => {
    expect(crumbsOf("/w", "/w/a/b").map((crumb) => crumb.path)).toEqual(["/w", "/w/a", "/w/a/b"]);
    expect(crumbsOf("/w", "/wide").map((crumb) => crumb.name)).toEqual(["/", "wide"]);
  });

  it("is a picture only by a name that says so", () => {
    expect(imageType("a/b.SVG")).toBe("image/svg+xml");
    expect(imageType("page.html")).toBeNull();
  });

  it("leads to text if its bytes are", () => {
    expect(isText(new TextEncoder().encode("grüße"))).toBe(true);
    expect(isText(Uint8Array.of(1, 0, 2))).toBe(false);
    expect(isText(Uint8Array.of(0xff, 0xfe))).toBe(false);
  });
});

describe("the form for a session", () => {
  const empty = {
    ...{ name: " mine ", workspace: "empty", url: "", ref: "", network: "off", domains: "" },
    ...{ memory: "2", cpus: "", spawner: "", variables: "", secrets: "" },
  };

  it("asks for what it says and no more", () => {
    expect(requestBody(empty)).toEqual({
      name: "mine",
      workspace: { kind: "empty" },
      egress: { mode: "off", domains: [] },
      limits: { memory: 2147483648, cpus: null },
      environment: {},
      secrets: {},
    });
  });

  it("reads variables line by line and refuses what is none", () => {
    expect(parseAssignments("A=1\n\nB=x=y\n")).toEqual({ A: "1", B: "x=y" });
    expect(() => parseAssignments("no")).toThrow(/NAME=value/);
  });
});
