"""A sandbox on this machine: in this process, or in a child process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress
from bascule.core.errors import SandboxDied, SandboxUnreachable, UsageError
from bascule.core.extras import require_extra
from bascule.core.observations import Observation
from bascule.core.programs import Program, ProgramHost, ProgramStatus, TerminalSize
from bascule.sandbox.settings import SandboxSettings

from .inprocess import InProcessRuntime
from .language_verbs import LanguageVerbs
from .verbs import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from .child import ChildServer
    from .remote import RemoteRuntime

_Answer = TypeVar("_Answer")


class LocalRuntime(LanguageVerbs, ProgramHost):
    """Runs actions on this machine, as the current user.

    By default the sandbox is in this process, which is fastest. With `process=True` it is in a
    child process, which does not share the caller's event loop, memory and signals; a crash of the
    child does not end the caller. Closing the runtime, or any end of this process, ends every
    process that the runtime started.
    """

    def __init__(
        self,
        working_dir: str | Path | None = None,
        *,
        settings: SandboxSettings | None = None,
        rules: str | Path | None = None,
        checkpoints: str | Path | None = None,
        process: bool = False,
        default_timeout: float | None = DEFAULT_TIMEOUT,
    ) -> None:
        """`rules`: TOML file with your rules for commands. A command without a rule is refused,
        because there is nobody to ask. `checkpoints`: directory of a checkpoint store outside of
        `working_dir`. Each action is then recorded in this store, and `restore` undoes actions."""
        self._working_dir = working_dir
        self._rules = rules
        self._checkpoints = checkpoints
        self._settings = settings
        self.default_timeout = default_timeout
        self._process = process
        self._child: ChildServer | None = None
        self._inner: InProcessRuntime | RemoteRuntime | None = None
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
            runtime = InProcessRuntime(settings, default_timeout=self.default_timeout)
            await runtime.connect()
            self._inner = runtime

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        return await self._unless_died(self._open.act(action, on_progress=on_progress))

    async def upload(self, source: Path, destination: str) -> None:
        await self._unless_died(self._open.upload(source, destination))

    async def download(self, path: str, destination: Path) -> Path:
        return await self._unless_died(self._open.download(path, destination))

    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        return await self._unless_died(self._open.read_log(shell, start=start, end=end))

    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        work = self._open.search_log(pattern, shell, start=start, limit=limit)
        return await self._unless_died(work)

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
        work = self._open.start_program(
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
        return await self._unless_died(work)

    async def find_program(self, program_id: str) -> Program:
        return await self._unless_died(self._open.find_program(program_id))

    async def list_programs(self) -> Sequence[ProgramStatus]:
        return await self._unless_died(self._open.list_programs())

    async def aclose(self) -> None:
        self._closed = True
        if self._inner is not None:
            await self._inner.aclose()
        if self._child is not None:
            await self._child.aclose()

    @property
    def _open(self) -> InProcessRuntime | RemoteRuntime:
        if self._inner is None:
            raise UsageError("The runtime is not connected; use `async with` or `connect`")
        return self._inner

    def _resolved_settings(self) -> SandboxSettings:
        settings = self._settings or SandboxSettings()
        if self._rules is not None:
            from bascule.sandbox.command_rules import CommandRules

            settings = replace(settings, rules=CommandRules.read(Path(self._rules)))
        if self._working_dir is not None:
            shells = replace(settings.shells, working_dir=Path(self._working_dir).absolute())
            settings = replace(settings, shells=shells)
        if self._checkpoints is not None:
            from bascule.checkpoints.store import suitable_workspace

            store = Path(self._checkpoints).absolute()
            suitable_workspace(Path(settings.shells.working_dir), store)
            settings = replace(settings, checkpoints=store)
        return settings

    async def _start_child(self, settings: SandboxSettings) -> RemoteRuntime:
        # Imported here: a sandbox in this process needs neither a server nor an HTTP client.
        from .child import ChildServer
        from .remote import RemoteRuntime

        await asyncio.to_thread(require_extra, "sandbox")
        child = self._child = ChildServer(settings)
        await child.start()
        remote = RemoteRuntime(child.url, child.key, default_timeout=self.default_timeout)
        try:
            await child.while_alive(remote.connect())
        except BaseException:
            await remote.aclose()
            await child.aclose()
            raise
        return remote

    async def _unless_died(self, work: Awaitable[_Answer]) -> _Answer:
        """Await `work`. Turns a lost connection into `SandboxDied` if the child process has
        ended."""
        try:
            return await work
        except SandboxUnreachable as error:
            if self._child is None or not await self._child.has_ended():
                raise
            raise SandboxDied(
                f"The sandbox's process ended: {self._child.output_tail()}"
            ) from error
