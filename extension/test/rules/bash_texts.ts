/** Generates bash texts that are hard to read: nested, quoted, then damaged. All from one seed. */

const VALUES = ["a", "b1", "-x", "x=y", "a,b", "{}", "a#b", "%s", "+", "@", "-", "1"];
const VARIABLES = ["v", "w", "x1"];
const DAMAGE = [
  ..."\\ \n ' \" ` $ ( ) { } [ ] ; & | < > # ! ~ * ? = : @ a 1 / % , ^".split(" "),
  ...[" ", "\t", "\\\n", " \\\n", "\\\\", "$(", "$((", "))", "${", "<<E\n", "\nE\n", "<<-'E'\n"],
  ...[
    "$'",
    '$"',
    "<(",
    ">(",
    "&&",
    "||",
    ";;",
    "|&",
    "&>",
    ">&",
    ">&-",
    "1>(",
    "<<<",
    "\\`",
    "${v:-",
    "((",
    "[[",
  ],
  ...["]]", "then", "do", "done", "fi", "esac", "case ", "in", "if ", "time ", "! ", "{ ", "; }"],
  ...[
    "function ",
    "coproc ",
    "select ",
    "v=",
    "v=(",
    "v[0]=",
    "$[",
    "$v",
    "$@",
    "\\$",
    "!(",
    "#\n",
  ],
];

/** mulberry32: small, fast and the same everywhere. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export class BashTexts {
  private commands = 0;
  private documents: string[] = [];

  constructor(private readonly random: () => number) {}

  /** A new text. Every command in it has a name that no program has: c1, c2, … */
  next(): string {
    this.commands = 0;
    this.documents = [];
    let text = this.list(2);
    for (let left = this.below(4); left > 0; left--) text = this.damaged(text);
    return text;
  }

  private below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  private pick<T>(...choices: [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0];
  }

  private damaged(text: string): string {
    const at = this.below(text.length + 1);
    if (this.random() < 0.3) return text.slice(0, at) + text.slice(at + 1 + this.below(3));
    return text.slice(0, at) + (DAMAGE[this.below(DAMAGE.length)] ?? "") + text.slice(at);
  }

  /** Commands joined by operators. Here-documents follow the line that starts them. */
  private list(depth: number): string {
    const outer = this.documents;
    this.documents = [];
    let text = this.command(depth);
    for (let left = this.below(depth + 1); left > 0; left--) {
      const joint = this.pick(
        "; ",
        " && ",
        " || ",
        " | ",
        " & ",
        "\n",
        " |& ",
        ";",
        "|",
        "&&",
        "&",
      );
      if (joint === "\n") text += this.takeDocuments();
      else text += joint;
      text += this.command(depth);
    }
    if (this.documents.length) text += this.takeDocuments();
    this.documents = outer;
    return text;
  }

  private takeDocuments(): string {
    const text = `\n${this.documents.join("")}`;
    this.documents = [];
    return text;
  }

  private command(depth: number): string {
    if (depth <= 0 || this.random() < 0.5) return this.simple(depth);
    const inner = () => this.list(depth - 1);
    const kinds: (() => string)[] = [
      () => `(${inner()})`,
      () => `( ${inner()} )${this.redirection(depth)}`,
      () => `{ ${inner()}\n}${this.redirection(depth)}`,
      () => `if ${inner()}\nthen ${inner()}\nfi`,
      () => `if ${inner()}\nthen ${inner()}\nelif ${inner()}\nthen ${inner()}\nelse ${inner()}\nfi`,
      () => `while ${inner()}\ndo ${inner()}\ndone`,
      () => `until ${inner()}\ndo ${inner()}\ndone`,
      () => `for v in ${this.word(depth)} ${this.word(depth)}; do ${inner()}\ndone`,
      () => `case ${this.word(depth)} in ${this.pick("a", "*", "(b", "a|b")}) ${inner()}\n;;\nesac`,
      () => `case a in a) ${inner()}\n;& b) ${inner()}\n;; esac`,
      () => `! ${this.command(depth - 1)}`,
      () => `time ${this.command(depth - 1)}`,
      () => `[[ ${this.pick("-n", "-f", "!  -z")} ${this.word(0)} ]]`,
      () => `[[ a == ${this.word(0)} && b < c ]]`,
      () => `(( ${this.arithmetic()} ))`,
      () => `eval ${this.quoted(inner())}`,
      () => `command ${this.simple(depth - 1)}`,
      () => `c() { ${inner()}\n}`,
    ];
    return kinds[this.below(kinds.length)]?.() ?? "";
  }

  private simple(depth: number): string {
    const name = this.name(`c${++this.commands}`);
    const before = this.random() < 0.1 ? `LANG=${this.word(depth)} ` : "";
    const words = Array.from({ length: this.below(4) }, () => ` ${this.word(depth)}`);
    const after = this.random() < 0.25 ? this.redirection(depth) : "";
    if (this.random() < 0.05) return `v=${this.word(depth)}`;
    return before + name + words.join("") + after;
  }

  private name(name: string): string {
    return this.pick(name, name, name, name, `\\${name}`, `'${name}'`, `"${name}"`, `$'${name}'`);
  }

  private redirection(depth: number): string {
    const kinds: (() => string)[] = [
      () => ` > f${this.below(3)}`,
      () => ` 2>&1`,
      () => ` &> f1`,
      () => ` >> "f 2"`,
      () => ` < /dev/null`,
      () => ` <<< ${this.word(depth)}`,
      () => this.hereDocument(depth),
    ];
    return kinds[this.below(kinds.length)]?.() ?? "";
  }

  private hereDocument(depth: number): string {
    const end = `E${this.documents.length}`;
    const indent = this.random() < 0.3;
    const tab = indent ? "\t" : "";
    const line = this.pick(
      () => this.word(depth),
      () => `$(${this.list(0)})`,
      () => "`" + this.simple(0) + "`",
      () => `it's "${this.pick("$v", "a", "\\$(c9)", "${v:-b}")}`,
      () => "a \\",
    )();
    this.documents.push(`${tab}${line}\n${tab}b\n${tab}${end}\n`);
    return ` <<${indent ? "-" : ""}${this.pick(end, end, `'${end}'`, `"${end}"`, `\\${end}`)}`;
  }

  private word(depth: number): string {
    const parts = Array.from({ length: 1 + this.below(2) }, () => this.wordPart(depth));
    return parts.join("");
  }

  private wordPart(depth: number): string {
    const value = VALUES[this.below(VALUES.length)] ?? "a";
    const variable = VARIABLES[this.below(VARIABLES.length)] ?? "v";
    const kinds: (() => string)[] = [
      () => value,
      () => value,
      () => `'${value} ${this.pick("$(c9)", "`", '"', "\\", "#")}'`,
      () => `"${value} ${this.pick("'", '\\"', "#", "\\\\", "\\$v", "$", "")}"`,
      () => `$'${value}${this.pick("\\n", "\\'", "\\x41", "\\\\", "\\101", "\\u00e9")}'`,
      () => this.pick("\\ ", "\\;", "\\\\", "\\'", "\\$", "\\*", "\\\t", "\\#", "\\~"),
      () => this.pick("*", "?", "[ab]", "{a,b}", "{1..3}", "~", "[", "]", "{a", "}", "a{b}c"),
      () => `$${variable}`,
      () => `"$${variable}${value}"`,
      () => `\${${variable}${this.pick("", ":-a", "#a", "%%b*", ":1", "/a/b", "^^", ":+a b")}}`,
      () => `$((${this.arithmetic()}))`,
    ];
    if (depth > 0)
      kinds.push(
        () => `$(${this.list(depth - 1)})`,
        () => `"$(${this.list(depth - 1)})"`,
        () => `"a $(${this.list(depth - 1)} ) b"`,
        () => this.backticks(this.list(depth - 1)),
        () => `"${this.backticks(this.simple(0))}"`,
        () => `<(${this.list(depth - 1)})`,
        () => `>(${this.simple(0)})`,
        () => `$( (${this.list(depth - 1)}) )`,
      );
    return kinds[this.below(kinds.length)]?.() ?? value;
  }

  private arithmetic(): string {
    return this.pick(
      "1 + 2",
      "v",
      "v + 1",
      "(1 + 2) * w",
      "1 ? v : 2",
      "v++",
      "0x1f",
      "1 < 2",
      "16#ff",
    );
  }

  private backticks(text: string): string {
    return `\`${text.replace(/[\\`]/g, "\\$&")}\``;
  }

  private quoted(text: string): string {
    return `'${text.replaceAll("'", "'\\''")}'`;
  }
}
