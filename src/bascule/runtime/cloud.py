"""A runtime in a session of a hub: a workspace, a sandbox and VS Code on another machine."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bascule.core.actions import CHECKPOINT_ACTIONS, Action
from bascule.core.contracts import LogMatch, OnProgress, OnStage
from bascule.core.errors import UsageError
from bascule.core.observations import Observation
from bascule.core.programs import Program, ProgramHost, ProgramStatus, TerminalSize
from bascule.core.tracing import Tracing
from bascule.link.sessions import HubSession, SessionCalls

from .language_verbs import LanguageVerbs
from .remote import RemoteRuntime
from .verbs import DEFAULT_TIMEOUT
from .vscode import VSCodeRuntime


class CloudRuntime(LanguageVerbs, ProgramHost):
    """Runs actions in a session of the hub at `url`: a new session, or the session `session_id`.

    Actions run in the session's sandbox, or in its own VS Code window if the session's `runtime`
    is `vscode`. In a window, uploads and downloads still use the sandbox, and logs cannot be read.

    `connect` resumes a paused or stopped session, and waits until the session is ready. Closing the
    runtime leaves the session as it is, so that another runtime can attach to it. With `remove`,
    closing removes a session that this runtime created.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        session_id: str = "",
        session: Mapping[str, Any] | None = None,
        remove: bool = False,
        on_stage: OnStage | None = None,
        default_timeout: float | None = DEFAULT_TIMEOUT,
        tracing: Tracing | None = None,
    ) -> None:
        """`session`: the body for a new session, as `POST /api/sessions` takes it.

        `tracing`: makes a span of each action.
        """
        self._tracing = tracing
        self._calls = SessionCalls(url, token)
        self._token = token
        self._wanted = session_id
        self._body = dict(session or {})
        self._request_key = secrets.token_hex(16)
        self._removes = remove and not session_id
        self._on_stage = on_stage
        self.default_timeout = default_timeout
        self._session: HubSession | None = None
        self._inner: RemoteRuntime | None = None
        self._window: VSCodeRuntime | None = None

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def session(self) -> HubSession:
        """The session as it was at `connect`."""
        return self._connected[0]

    @property
    def hub_url(self) -> str:
        return self._calls.url

    @property
    def vscode_url(self) -> str:
        """URL of the session's VS Code."""
        return self.session.vscode_url

    async def web_hosts(self) -> dict[str, int]:
        """URLs of the session's apps, with the ports they listen on."""
        ports = await self._calls.ports(self.session_id)
        return {each["url"]: each["port"] for each in ports}

    @property
    def capabilities(self) -> frozenset[str]:
        return self._runtime.capabilities

    async def connect(self) -> None:
        if self._inner is not None:
            return
        session = await self._create_or_resume()
        session = await self._calls.until_ready(session.id, on_stage=self._on_stage)
        url = f"{self._calls.url}/sandbox/{session.id}"
        async with AsyncExitStack() as opened:
            inner = RemoteRuntime(
                url, self._token, default_timeout=self.default_timeout, tracing=self._tracing
            )
            await opened.enter_async_context(inner)
            if session.metadata.get("runtime") == "vscode":
                self._window = await opened.enter_async_context(await self._own_window(session.id))
            opened.pop_all()
        self._session, self._inner = session, inner

    async def _own_window(self, session_id: str) -> VSCodeRuntime:
        window = await self._calls.window(session_id)
        return VSCodeRuntime(
            self._calls.url,
            self._token,
            window=window.id,
            default_timeout=self.default_timeout,
            tracing=self._tracing,
        )

    async def aclose(self) -> None:
        if self._window is not None:
            await self._window.aclose()
        if self._inner is not None:
            await self._inner.aclose()
        if self._removes and self._wanted:
            await self._calls.remove(self._wanted)
            self._wanted = ""
        await self._calls.aclose()

    async def act(self, action: Action, *, on_progress: OnProgress | None = None) -> Observation:
        # The sandbox keeps the checkpoints, also if the session's actions run in its window.
        is_for_sandbox = isinstance(action, CHECKPOINT_ACTIONS)
        runtime = self._sandbox_runtime if is_for_sandbox else self._runtime
        return await runtime.act(action, on_progress=on_progress)

    async def upload(self, source: Path, destination: str) -> None:
        await self._sandbox_runtime.upload(source, destination)

    async def download(self, path: str, destination: Path) -> Path:
        return await self._sandbox_runtime.download(path, destination)

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
        return await self._sandbox_runtime.start_program(
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
        return await self._sandbox_runtime.find_program(program_id)

    async def list_programs(self) -> Sequence[ProgramStatus]:
        return await self._sandbox_runtime.list_programs()

    async def read_log(self, shell: str = "", *, start: int = 0, end: int | None = None) -> bytes:
        return await self._runtime.read_log(shell, start=start, end=end)

    async def search_log(
        self, pattern: str, shell: str = "", *, start: int = 0, limit: int = 100
    ) -> Sequence[LogMatch]:
        return await self._runtime.search_log(pattern, shell, start=start, limit=limit)

    async def _create_or_resume(self) -> HubSession:
        if not self._wanted:
            session = await self._calls.create(self._body, key=self._request_key)
            self._wanted = session.id
            return session
        return await self._calls.resume(self._wanted)

    @property
    def _runtime(self) -> RemoteRuntime | VSCodeRuntime:
        return self._window or self._sandbox_runtime

    @property
    def _sandbox_runtime(self) -> RemoteRuntime:
        return self._connected[1]

    @property
    def _connected(self) -> tuple[HubSession, RemoteRuntime]:
        if self._session is None or self._inner is None:
            raise UsageError("The runtime is not connected; use `async with` or `connect`")
        return self._session, self._inner
