"""A session as a `Runtime`, for code in the hub's own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bascule.core.actions import Action
from bascule.core.contracts import LogMatch, OnProgress
from bascule.core.errors import UsageError
from bascule.core.observations import Observation
from bascule.core.programs import Program, ProgramHost, ProgramStatus, TerminalSize
from bascule.core.sessions import SessionId
from bascule.hub.identity import Identity
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.verbs import DEFAULT_TIMEOUT, Verbs, prepared
from bascule.wire import error_observation

from .sandbox_client import SandboxClient
from .service import Sessions


class SessionRuntime(Verbs, ProgramHost):
    """Runs actions in a session as `identity`, which the audit log names.

    Connecting resumes or starts the session if necessary, and waits until it is ready. An identity
    of scope `session` only waits. Closing leaves the session as it is.
    """

    default_timeout = DEFAULT_TIMEOUT

    def __init__(self, sessions: Sessions, identity: Identity, session_id: SessionId) -> None:
        self._sessions = sessions
        self._identity = identity
        self._id = session_id
        self._capabilities: frozenset[str] = frozenset()

    @property
    def capabilities(self) -> frozenset[str]:
        return self._capabilities

    async def connect(self) -> None:
        row = self._sessions.get(self._identity, self._id)
        if self._identity.scope != "session":
            await self._sessions.resume(self._identity, self._id)
        await self._sessions.until_ready(self._id)
        if row.spec.runtime == "vscode":
            window = await self._sessions.window(self._identity, self._id)
            self._capabilities = window.capabilities
            return
        client = await self._runtime()
        await client.connect()
        self._capabilities = client.capabilities

    async def aclose(self) -> None: ...

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
        return await self._sessions.start_program(
            self._identity,
            self._id,
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
        return await (await self._runtime()).find_program(program_id)

    async def list_programs(self) -> Sequence[ProgramStatus]:
        return await (await self._runtime()).list_programs()

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        try:
            action = prepared(action, self.default_timeout)
        except UsageError as error:
            return error_observation(error, action.id)
        return await self._sessions.act(self._identity, self._id, action, on_progress=on_progress)

    async def upload(self, source: Path, destination: str) -> None:
        await (await self._runtime()).upload(source, destination)

    async def unpack(self, archive: Path, destination: str) -> None:
        await (await self._runtime()).unpack(archive, destination)

    async def download(self, path: str, destination: Path) -> Path:
        return await (await self._runtime()).download(path, destination)

    async def read_start(self, path: str, *, limit: int) -> bytes:
        """The first `limit` bytes of a file. Reads no more, whatever size the sandbox reports."""
        content = bytearray()
        async with (await self.sandbox_client()).download(path) as found:
            async for chunk in found.chunks:
                content += chunk
                if len(content) >= limit:
                    break
        return bytes(content[:limit])

    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        return await (await self._runtime()).read_log(shell, start=start, end=end)

    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        return await (await self._runtime()).search_log(pattern, shell, start=start, limit=limit)

    async def sandbox_client(self) -> SandboxClient:
        """The client of the session's sandbox. Resumes a paused session."""
        return await self._sessions.sandbox_client(self._identity, self._id)

    async def _runtime(self) -> RemoteRuntime:
        return (await self.sandbox_client()).runtime
