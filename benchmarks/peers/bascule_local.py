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
from bascule.core.actions import CmdRun
from bascule.sandbox.shell_settings import ShellSettings
from bascule.sandbox.shells import Shells
from benchmarks.peers.serve import serve
from benchmarks.peers.subject import Answer, Subject


class BasculeLocal(Subject[str]):
    """A shell is a name; bash starts with its first command."""

    name = "bascule"
    starts_with_first_command = True

    def __init__(self) -> None:
        self._sandbox: Shells | None = None
        self._names = map("shell-{}".format, itertools.count())

    def versions(self) -> dict[str, str]:
        return {"bascule": bascule.__version__}

    async def start(self) -> None:
        self._sandbox = _new_sandbox()
        await self._sandbox.run(CmdRun("true"))

    async def stop(self) -> None:
        await self._shells.aclose()

    async def open(self) -> str:
        return next(self._names)

    async def run(self, shell: str, command: str, timeout: float) -> Answer:
        seen = await self._shells.run(CmdRun(command, shell=shell, output_limit=0, timeout=timeout))
        return Answer(seen.content, seen.exit_code)

    async def close(self, shell: str) -> None:
        await self._shells.close_shell(shell)

    async def start_cold(self) -> float:
        began = perf_counter()
        sandbox = _new_sandbox()
        await sandbox.run(CmdRun("true"))
        seconds = perf_counter() - began
        await sandbox.aclose()
        return seconds

    @property
    def _shells(self) -> Shells:
        assert self._sandbox is not None
        return self._sandbox


def _new_sandbox() -> Shells:
    return Shells(ShellSettings(working_dir=Path.cwd()))


def _run_on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    uvloop.run(main)


if __name__ == "__main__":
    serve(BasculeLocal(), _run_on_uvloop if "uvloop" in sys.argv[1:] else asyncio.run)
