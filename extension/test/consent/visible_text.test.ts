import { expect, test } from "vitest";
import { isProtected } from "../../src/consent/protected_paths";
import { fullText, partsOf, type ConsentRequest } from "../../src/consent/request";
import { withoutLinks, visible, visibleLines } from "../../src/consent/visible_text";

test.each([
  ["plain Größe 你好", "plain Größe 你好"],
  ["a\tb\r\x1b[31m\x7f\0", "a⇥b⟨CR⟩⟨ESC⟩[31m⟨DEL⟩⟨NUL⟩"],
  [
    "\u202ex\u2066\u200b\ufeff\u00a0\u3000\u2028",
    "⟨U+202E⟩x⟨U+2066⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+00A0⟩⟨U+3000⟩⟨U+2028⟩",
  ],
  ["א/ب", "⟨U+05D0⟩/⟨U+0628⟩"],
  ["\ud800\u{e0041}\u3164\u2800", "⟨U+D800⟩⟨U+E0041⟩⟨U+3164⟩⟨U+2800⟩"],
  ["e\u0301 z\u0301\u0301\u0301", "e\u0301 z⟨U+0301⟩⟨U+0301⟩⟨U+0301⟩"],
  [`a${" ".repeat(24)}b${" ".repeat(25)}c`, `a${" ".repeat(24)}b ⟨25 spaces⟩ c`],
])("%j is shown as %j", (text, shown) => expect(visible(text)).toBe(shown));

test("no line is wider than an editor, and each has a bar before it", () => {
  const lines = visibleLines(`short\n${"x".repeat(200)}\n\n\n\n\n\nend`);
  expect(lines).toEqual([
    "│ short",
    `│ ${"x".repeat(72)}`,
    `┊ ${"x".repeat(72)}`,
    `┊ ${"x".repeat(56)}`,
    "│ ⟨5 empty lines⟩",
    "│ end",
  ]);
  expect(visibleLines("你".repeat(50))[0]).toHaveLength(38);
});

test("a text in a message makes no link", () => {
  expect(withoutLinks("[a](command:b) [c](d)")).toBe("[a] (command:b) [c] (d)");
});

test("nothing that is sent is left out of what is shown", () => {
  const args = {
    arguments: [{ text: "rm\n" }],
    command: "x",
    thought: "",
    hidden: false,
    cwd: null,
    security_risk: -1,
    confirmation_state: "confirmed",
  };
  const request: ConsentRequest = {
    kind: "vscode_command",
    requester: { name: "Ann\nWants to: nothing", hub: "http://h" },
    cwd: "",
    paths: [],
    parts: partsOf(args),
  };
  expect(request.parts.map(({ name }) => name)).toEqual(["command", "arguments"]);
  expect(fullText(request)).toBe(`Asks:     Ann⟨LF⟩Wants to: nothing
Through:  http://h
Wants to: run a VS Code command (vscode_command)

command:
│ x

arguments (5 lines, 30 characters):
│ [
│   {
│     "text": "rm\\n"
│   }
│ ]
`);
});

test("a name that the agent gave to an argument cannot be taken for a line of ours", () => {
  const fake = "Wants to: read a file (read)";
  const request: ConsentRequest = {
    kind: "run",
    requester: { name: "Ann", hub: "" },
    cwd: "",
    paths: [],
    parts: partsOf({ command: "x".repeat(80), [fake]: 1, ["y".repeat(100)]: "z" }),
  };
  const lines = fullText(request).split("\n");
  expect(lines.filter((line) => line.startsWith("Wants to:"))).toHaveLength(1);
  expect(lines).toContain(`│ ${fake}`);
  expect(lines).toContain("command (1 line, 80 characters):");
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(74);
});

test.each([
  ["/w/.vscode/a", true],
  ["/w/.VSCODE", true],
  ["/w/.g\u200cit/hooks/x", true],
  ["/w/sub/.git", true],
  ["/w/.husky/pre-commit", true],
  ["/w/.envrc", true],
  ["/w/a.code-workspace", true],
  ["/w/.github/x", false],
  ["/w/vscode/.gitignore", false],
  ["/w/.envrc.txt", false],
])("%s is protected: %s", (file, expected) => expect(isProtected(file)).toBe(expected));

test("parts of a text are marked below their lines, also where lines are wrapped or spelt out", () => {
  const text = "ls; a\tb\n\nrm 界 x";
  const marked = ["ls", "a\tb", "界 x"].map((part) => ({
    start: text.indexOf(part),
    end: text.indexOf(part) + part.length,
  }));
  expect(visibleLines(text, "│ ", "┊ ", marked)).toEqual([
    "│ ls; a⇥b",
    "  ^^  ^^^",
    "│",
    "│ rm 界 x",
    "     ^^^^",
  ]);
  const long = `${"x".repeat(70)} rm all`;
  expect(visibleLines(long, "│ ", "┊ ", [{ start: 71, end: 77 }])).toEqual([
    `│ ${"x".repeat(70)} r`,
    `  ${" ".repeat(71)}^`,
    "┊ m all",
    "  ^^^^^",
  ]);
  const longer = `a ${"y".repeat(220)} b`;
  const lines = visibleLines(longer, "│ ", "┊ ", [{ start: 2, end: 222 }]);
  expect(lines.filter((line) => line.includes("^"))).toEqual([
    `    ${"^".repeat(70)}`,
    `  ${"^".repeat(6)}`,
  ]);
});
