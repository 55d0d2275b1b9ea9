"""A sandbox on this machine: in this process, or in a child process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress, Runtime
from bascule.core.errors import SandboxDied, SandboxUnreachable, UsageError
from bascule.core.observations import Observation
from bascule.sandbox.settings import SandboxSettings
from bascule.wire import error_observation

from .child import ChildServer
from .inprocess import InProcessRuntime
from .remote import RemoteRuntime
from .verbs import Verbs, prepared

_Answer = TypeVar("_Answer")


class LocalRuntime(Verbs):
    """Runs actions on this machine, as the current user.

    In this process that is the fastest there is. With `process=True` a child does the work: the
    caller's loop, memory and signals stay its own, and a fault on either side ends only that one.
    Closing it, or the end of this process by whatever means, ends every process it started.
    """

    def __init__(
        self,
        working_dir: str | Path | None = None,
        *,
        settings: SandboxSettings | None = None,
        process: bool = False,
        default_timeout: float | None = 120.0,
    ) -> None:
        self._working_dir = working_dir
        self._settings = settings
        self.default_timeout = default_timeout
        self._process = process
        self._child: ChildServer | None = None
        self._inner: Runtime | None = None
        self._closed = False

    @property
    def capabilities(self) -> frozenset[str]:
        return self._open.capabilities

    async def connect(self) -> None:
        if self._closed:
            raise UsageError("This runtime was closed; make another")
        if self._inner is not None:
            return
        settings = await asyncio.to_thread(self._resolved_settings)
        if self._process:
            self._inner = await self._start_child(settings)
        else:
            here = InProcessRuntime(settings)
            await here.connect()
            self._inner = here

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        try:
            action = prepared(action, self.default_timeout)
        except UsageError as error:
            return error_observation(error, action.id)
        return await self._or_died(self._open.act(action, on_progress=on_progress))

    async def upload(self, source: Path, destination: str) -> None:
        await self._or_died(self._open.upload(source, destination))

    async def download(self, path: str, destination: Path) -> Path:
        return await self._or_died(self._open.download(path, destination))

    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        return await self._or_died(self._open.read_log(shell, start=start, end=end))

    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        work = self._open.search_log(pattern, shell, start=start, limit=limit)
        return await self._or_died(work)

    async def aclose(self) -> None:
        self._closed = True
        if self._inner is not None:
            await self._inner.aclose()
        if self._child is not None:
            await self._child.aclose()

    @property
    def _open(self) -> Runtime:
        if self._inner is None:
            raise UsageError("The runtime is not connected; use `async with` or `connect`")
        return self._inner

    def _resolved_settings(self) -> SandboxSettings:
        settings = self._settings or SandboxSettings()
        if self._working_dir is None:
            return settings
        shells = replace(settings.shells, working_dir=Path(self._working_dir).absolute())
        return replace(settings, shells=shells)

    async def _start_child(self, settings: SandboxSettings) -> Runtime:
        child = self._child = ChildServer(settings)
        await child.start()
        remote = RemoteRuntime(child.url, child.key, default_timeout=None)
        try:
            await child.while_alive(remote.connect())
        except BaseException:
            await remote.aclose()
            await child.aclose()
            raise
        return remote

    async def _or_died(self, work: Awaitable[_Answer]) -> _Answer:
        """Turns a lost connection into `SandboxDied` if the child process has ended."""
        try:
            return await work
        except SandboxUnreachable as error:
            if self._child is None or not await self._child.has_ended():
                raise
            raise SandboxDied(f"The sandbox's process ended: {self._child.last_words()}") from error
