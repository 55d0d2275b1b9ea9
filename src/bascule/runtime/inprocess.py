"""A sandbox in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress, Runtime
from bascule.core.errors import UsageError
from bascule.core.observations import Observation
from bascule.core.programs import Program, ProgramHost, ProgramStatus, TerminalSize
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings
from bascule.wire import error_observation

from .verbs import prepared


class InProcessRuntime(Runtime, ProgramHost):
    """A `Sandbox` with the interface of a runtime; the default of `LocalRuntime`."""

    _sandbox: Sandbox

    def __init__(self, settings: SandboxSettings, *, default_timeout: float | None) -> None:
        self._settings = settings
        self._default_timeout = default_timeout

    @property
    def capabilities(self) -> frozenset[str]:
        return self._sandbox.capabilities

    async def connect(self) -> None:
        self._sandbox = await asyncio.to_thread(Sandbox, self._settings)
        await self._sandbox.shells.restore()

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        try:
            action = prepared(action, self._default_timeout)
        except UsageError as error:
            return error_observation(error, action.id)
        return await self._sandbox.act(action, on_progress=on_progress)

    async def upload(self, source: Path, destination: str) -> None:
        from .transfer import copy_in

        await copy_in(self._sandbox, source, destination)

    async def download(self, path: str, destination: Path) -> Path:
        return await self._sandbox.in_thread(_copy_out, self._sandbox, path, destination)

    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        log = self._sandbox.log(shell)
        return await asyncio.to_thread(log.read, start, end)

    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        log = self._sandbox.log(shell)
        return await asyncio.to_thread(log.search, pattern, start=start, limit=limit)

    async def start_program(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        terminal: TerminalSize | None = None,
        secret_env: Mapping[str, str] | None = None,
        unread_limit: float | None = None,
        joins_stderr: bool = False,
        waits_for_reader: bool = False,
    ) -> Program:
        return await self._sandbox.programs.start_program(
            argv,
            env=env,
            cwd=cwd,
            user=user,
            terminal=terminal,
            secret_env=secret_env,
            unread_limit=unread_limit,
            joins_stderr=joins_stderr,
            waits_for_reader=waits_for_reader,
        )

    async def find_program(self, program_id: str) -> Program:
        return self._sandbox.programs.get(program_id)

    async def list_programs(self) -> Sequence[ProgramStatus]:
        return await self._sandbox.programs.list_programs()

    async def aclose(self) -> None:
        await self._sandbox.aclose()


# `transfer` is imported at the first copy: few runtimes copy files, and the import would slow the
# start of all.


def _copy_out(sandbox: Sandbox, path: str, destination: Path) -> Path:
    from .transfer import copy_out

    return copy_out(sandbox, path, destination)
