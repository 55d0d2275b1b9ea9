"""Ours in process: shells of one sandbox on uvloop or on plain asyncio, and its files."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any

import bascule
from bascule.core.actions import (
    Action,
    Browse,
    BrowseInteractive,
    CmdRun,
    FileEdit,
    FileRead,
    FileWrite,
    IPythonRun,
)
from bascule.core.observations import Error, Observation
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellKind, ShellSettings
from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, Cells, Files, Pages, Refused, Subject


class BasculeLocal(Subject[str], Files, Cells, Pages):
    """A shell is a name; bash starts with its first command."""

    starts_with_first_command = True

    def __init__(self, kind: ShellKind) -> None:
        self.name = "bascule-tmux" if kind == "tmux" else "bascule"
        self._kind = kind
        self._made: Sandbox | None = None
        self._browsing: Sandbox | None = None
        self._names = map("shell-{}".format, itertools.count())

    def versions(self) -> dict[str, str]:
        return {"bascule": bascule.__version__}

    async def start(self) -> None:
        self._made = self._new_sandbox()
        await self._made.shells.run(CmdRun("true"))

    async def stop(self) -> None:
        await self.end_browser()
        await self._sandbox.aclose()

    async def open(self) -> str:
        return next(self._names)

    async def run(self, shell: str, command: str, timeout: float) -> Answer:
        seen = await self._sandbox.shells.run(
            CmdRun(command, shell=shell, output_limit=0, timeout=timeout)
        )
        return Answer(seen.content, seen.exit_code)

    async def close(self, shell: str) -> None:
        await self._sandbox.shells.close_shell(shell)

    async def start_cold(self) -> float:
        began = perf_counter()
        sandbox = self._new_sandbox()
        await sandbox.shells.run(CmdRun("true"))
        seconds = perf_counter() - began
        await sandbox.aclose()
        return seconds

    async def read(self, path: str) -> str:
        return (await self._do(FileRead(path))).content

    async def write(self, path: str, text: str) -> None:
        await self._do(FileWrite(path, text))

    async def edit(self, path: str, old: str, new: str) -> None:
        await self._do(FileEdit(path, "str_replace", old_str=old, new_str=new))

    async def browse(self, url: str) -> str:
        return (await self._do(Browse(url), self._with_browser)).content

    async def interact(self, calls: str) -> str:
        return (await self._do(BrowseInteractive(calls), self._with_browser)).content

    async def end_browser(self) -> None:
        sandbox, self._browsing = self._browsing, None
        if sandbox is not None:
            await sandbox.aclose()

    @property
    def _with_browser(self) -> Sandbox:
        """One of its own, that nothing has been done in."""
        self._browsing = self._browsing or self._new_sandbox()
        return self._browsing

    async def run_cell(self, code: str) -> str:
        return (await self._do(IPythonRun(code, include_extra=False))).content

    async def end_kernel(self) -> None:
        await self.run_cell("exit")

    async def _do(self, action: Action, sandbox: Sandbox | None = None) -> Observation:
        seen = await (sandbox or self._sandbox).act(action)
        if isinstance(seen, Error):
            raise Refused(seen.content)
        return seen

    def _new_sandbox(self) -> Sandbox:
        shells = ShellSettings(working_dir=Path.cwd(), kind=self._kind)
        return Sandbox(SandboxSettings(shells=shells))

    @property
    def _sandbox(self) -> Sandbox:
        assert self._made is not None
        return self._made


def _run_on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    uvloop.run(main)


if __name__ == "__main__":
    kind: ShellKind = "tmux" if "tmux" in sys.argv[1:] else "pty"
    serve(BasculeLocal(kind), _run_on_uvloop if "uvloop" in sys.argv[1:] else asyncio.run)
