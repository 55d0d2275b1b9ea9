"""The TypeScript project on which the language actions of sandboxes are tested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILES: Final[Mapping[str, str]] = {
    "tsconfig.json": """\
{
  "compilerOptions": { "strict": true, "target": "es2022", "module": "es2022" },
  "include": ["**/*", ".vscode/*"]
}
""",
    "shapes.ts": """\
export interface Shape {
  area(): number;
}

/** A square by the length of its side. */
export class Square implements Shape {
  constructor(readonly side: number) {}
  area(): number {
    return this.side * this.side;
  }
}

export function total(shapes: Shape[]): number {
  return shapes.reduce((sum, shape) => sum + shape.area(), 0);
}
""",
    "report.ts": """\
import { total, Square } from "./shapes";

export function report(): string {
  const squares = [new Square(1), new Square(2)];
  return `total: ${total(squares)}, total again: ${total([])}`;
}
""",
    "main.ts": """\
import { report } from "./report";
import { total } from "./shapes";

console.log(report(), total([]));
""",
    "imports.ts": """\
import { total, Square } from "./shapes";
import { report } from "./report";
report(); total([]);
""",
    "ugly.ts": "export   const  one=1 ;\n",
    "wrong.ts": 'export const count: number = "three";\n',
    "fix.ts": "export class Wrong implements Iterable<number> {}\n",
    "undone/one.ts": "export function first(): number {\n  return 1;\n}\n",
    "undone/two.ts": 'import { first } from "./one";\nexport const two = first() + 1;\n',
    "undone/three.ts": 'import { first } from "./one";\nexport const three = first() + 2;\n',
    "dirty/one.ts": "export const shared = 1;\n",
    "dirty/two.ts": 'import { shared } from "./one";\nexport const two = shared;\n',
    "guarded.ts": "export const guarded = 1;\n",
    ".vscode/tool.ts": 'import { guarded } from "../guarded";\nexport const tool = guarded;\n',
    "notes.txt": "area of nothing\n",
}
"""By path. They have to exist before the language server starts."""


def write_files(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
