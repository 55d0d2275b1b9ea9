"""The runtimes in which tools can act: one sandbox, or the windows and sessions of a hub."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bascule.core.contracts import Runtime, WindowLink
from bascule.core.errors import NoSuchSession, UsageError
from bascule.core.windows import Window
from bascule.runtime import VSCodeRuntime

from ._sessions import ClientSessions, SessionSummary, choose_session


@dataclass(frozen=True, slots=True)
class ClientTarget:
    """The target in the URL: the only session that a client may use, or the window in which it
    starts."""

    session: str = ""
    window: str = ""


class ToolTargets(ABC):
    """The runtimes that one client can open. The caller closes each runtime."""

    has_windows = False
    has_sessions = False

    @abstractmethod
    async def first(self) -> Runtime:
        """The runtime for a client that has not chosen a runtime. Raises an error if there is no
        runtime."""

    async def windows(self) -> Sequence[Window]:
        return ()

    async def window(self, selector: str) -> Runtime:
        raise UsageError(f"There are no windows here, so none matches {selector!r}")

    async def sessions(self) -> Sequence[SessionSummary]:
        return ()

    async def session(self, which: str) -> Runtime:
        raise NoSuchSession(f"There is no session {which!r}", id=which)


class SingleTarget(ToolTargets):
    """A single runtime, opened when it is first needed."""

    def __init__(self, open: Callable[[], Awaitable[Runtime]]) -> None:
        self._open = open

    async def first(self) -> Runtime:
        return await self._open()


class HubTargets(ToolTargets):
    """The windows of a hub, and its sessions if it has any.

    A client starts in `session` or `window`, or else in the only connected window.
    """

    has_windows = True

    def __init__(
        self,
        link: Callable[[], WindowLink],
        *,
        sessions: ClientSessions | None = None,
        window: str = "",
        session: str = "",
    ) -> None:
        self._link = link
        self._sessions = sessions
        self._window = window
        self._session = session
        self.has_sessions = sessions is not None

    async def first(self) -> Runtime:
        if self._session:
            return await self.session(self._session)
        return await self.window(self._window)

    async def windows(self) -> Sequence[Window]:
        async with self._link() as link:
            await link.connect()
            return await link.windows()

    async def window(self, selector: str) -> Runtime:
        runtime = VSCodeRuntime(link=self._link(), window=selector, default_timeout=None)
        await runtime.connect()
        return runtime

    async def sessions(self) -> Sequence[SessionSummary]:
        return () if self._sessions is None else await self._sessions.list()

    async def session(self, which: str) -> Runtime:
        if self._sessions is None:
            return await super().session(which)
        return await self._sessions.open(choose_session(await self._sessions.list(), which).id)
