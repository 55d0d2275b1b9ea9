"""Language actions in a window, beside VS Code's commands for them and a bare echo."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bascule.core.editor_actions import LanguageLookup
from bascule.core.errors import BasculeError
from bascule.wire import encode_action, encode_observation
from benchmarks.peers.window_rig import WindowRig

_FILES = {
    "tsconfig.json": '{"compilerOptions": {"strict": true}, "include": ["*.ts"]}\n',
    "shapes.ts": (
        "export interface Shape {\n  area(): number;\n}\n\n"
        "export class Square implements Shape {\n"
        "  constructor(readonly side: number) {}\n"
        "  area(): number {\n    return this.side * this.side;\n  }\n}\n\n"
        "export function total(shapes: Shape[]): number {\n"
        "  return shapes.reduce((sum, shape) => sum + shape.area(), 0);\n}\n"
    ),
    "report.ts": (
        'import { total, Square } from "./shapes";\n\n'
        "export const square = new Square(2);\nconsole.log(total([square]));\n"
    ),
}
_TOTAL = {"line": 11, "character": 16}
"""Where `total` is declared, counted from 0, as VS Code's commands do."""
_SETTLED_SECONDS = 3.0


class WindowLanguage:
    """Times of one round, by what was done."""

    def __init__(self, rig: WindowRig, folder: Path) -> None:
        self._rig = rig
        self._folder = folder
        self._uri = str(folder / "shapes.ts")
        self._times: dict[str, list[float]] = {}
        self._names = ("total", "totals")
        self._message: object = None
        self._answer: object = None

    async def prepare(self) -> None:
        for name, text in _FILES.items():
            (self._folder / name).write_text(text)
        agent = self._rig.agent
        found = await agent.references(self._uri, 12, "total")
        if found.total != 3:
            raise RuntimeError(f"{found.total} references instead of 3")
        event = encode_action(LanguageLookup("references", self._uri, 12, "total"))
        self._message = {"window_id": agent.window.id, "event": event}
        self._answer = encode_observation(found)
        await self._rig.command("probe.connect", self._rig.relay_url, self._answer)
        await asyncio.sleep(_SETTLED_SECONDS)

    async def measure(self, count: int) -> dict[str, Any]:
        agent, uri = self._rig.agent, self._uri
        place = (uri, 12, "total")
        lookups: dict[str, tuple[Callable[[], Awaitable[object]], Sequence[str], Any]] = {
            "definition": (
                lambda: agent.definition(*place),
                ("vscode.executeDefinitionProvider",),
                _TOTAL,
            ),
            "type_definition": (
                lambda: agent.type_definition(*place),
                ("vscode.executeTypeDefinitionProvider",),
                _TOTAL,
            ),
            "implementations": (
                lambda: agent.implementations(uri, 2, "area"),
                ("vscode.executeImplementationProvider",),
                {"line": 1, "character": 2},
            ),
            "references": (
                lambda: agent.references(*place),
                ("vscode.executeReferenceProvider",),
                _TOTAL,
            ),
            "hover": (lambda: agent.hover(*place), ("vscode.executeHoverProvider",), _TOTAL),
            "workspace_symbols": (
                lambda: agent.workspace_symbols("total", path=uri),
                ("vscode.executeWorkspaceSymbolProvider",),
                "total",
            ),
            "call_hierarchy": (
                lambda: agent.call_hierarchy(*place),
                ("vscode.prepareCallHierarchy", "vscode.provideIncomingCalls"),
                _TOTAL,
            ),
            "code_actions": (
                lambda: agent.code_actions(*place),
                ("vscode.executeCodeActionProvider",),
                {**_TOTAL, "end": 21},
            ),
            "format": (
                lambda: agent.format(uri),
                ("vscode.executeFormatDocumentProvider",),
                None,
            ),
        }
        for name, (ask, commands, at) in lookups.items():
            for work in (self._echo, ask):  # the first answers are slower
                await work()
            await self._repeat("echo", self._echo, count)
            await self._repeat(name, ask, count)
            self._note(f"{name}_bare", await self._bare(commands, at, count))
        await self._rename(count)
        return {name: statistics.median(times) for name, times in self._times.items()}

    async def _rename(self, count: int) -> None:
        for n in range(count + 1):
            old, new = self._names if n % 2 == 0 else self._names[::-1]
            bare = await self._bare(("vscode.executeDocumentRenameProvider",), _TOTAL, 1)
            began = perf_counter()
            await self._rig.agent.rename_symbol(self._uri, 12, old, new)
            if n:
                self._note("rename", [perf_counter() - began])
                self._note("rename_bare", bare)
        if new != self._names[0]:
            await self._rig.agent.rename_symbol(self._uri, 12, new, self._names[0])

    async def _bare(self, commands: Sequence[str], at: object, count: int) -> list[float]:
        seen = await self._rig.command("probe.language", list(commands), self._uri, at, count)
        return [float(each) for each in seen]

    async def _repeat(self, name: str, work: Callable[[], Awaitable[object]], count: int) -> None:
        for _ in range(count):
            began = perf_counter()
            await work()
            self._note(name, [perf_counter() - began])

    def _note(self, name: str, times: Sequence[float]) -> None:
        self._times.setdefault(name, []).extend(times)

    async def _echo(self) -> None:
        if await self._rig.asker.call("echo", self._message) != self._answer:
            raise BasculeError("the echo differs")
