"""VS Code windows of sessions: starts VS Code on demand and runs actions in its window."""

from __future__ import annotations

import asyncio
from typing import Final

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress
from bascule.core.observations import Observation
from bascule.core.sessions import SessionId
from bascule.core.windows import Window, WindowId
from bascule.hub.identity import Identity
from bascule.hub.inprocess_windows import InProcessWindows
from bascule.hub.registry import Registry
from bascule.hub.sockets import Sockets
from bascule.runtime.vscode import VSCodeRuntime

from .sandbox_client import SandboxClient
from .stages import within

_VSCODE: Final = 60.0
"""Seconds that VS Code has to start."""


class SessionWindows:
    """One window for each session, in however many browsers it is shown.

    A sandbox tells when its VS Code ends, so it is asked for one only when there may be none.
    """

    def __init__(self, sockets: Sockets, registry: Registry) -> None:
        self._sockets = sockets
        self._registry = registry
        self._shown: set[SessionId] = set()
        """Sessions whose VS Code runs, as far as known."""
        self._kept: set[SessionId] = set()
        """Sessions with a headless window."""

    async def open(
        self, session_id: SessionId, client: SandboxClient, *, kept: bool = False
    ) -> None:
        """Start VS Code. `kept`: also keep a window open when no browser shows it."""
        if session_id in (self._kept if kept else self._shown):
            return
        await client.start_vscode(window=kept, timeout=_VSCODE)
        self._shown.add(session_id)
        if kept:
            self._kept.add(session_id)

    def ended(self, session_id: SessionId) -> None:
        """VS Code of the session has ended, or the hub no longer hears from the session."""
        self._shown.discard(session_id)
        self._kept.discard(session_id)

    def find(self, session_id: SessionId) -> Window | None:
        """The window that takes actions, if there is one."""
        for window in self._registry.windows():
            if window.session_id == session_id and window.status == "healthy":
                return window
        return None

    def connected(self) -> set[WindowId]:
        """All connected windows, of every owner."""
        return {window.id for window in self._registry.windows()}

    async def present(self, session_id: SessionId, *, timeout: float) -> Window:
        """The session's window, as soon as it takes actions. Raises an error after `timeout`."""
        async with within(timeout, "start_timeout"):
            return await self.appears(session_id)

    async def appears(self, session_id: SessionId) -> Window:
        """The session's window, however long it takes until someone opens it."""
        while True:
            change = self._sockets.next_change()
            if (window := self.find(session_id)) is not None:
                return window
            await change

    async def act(
        self,
        who: Identity,
        window: Window,
        action: Action,
        *,
        on_progress: OnProgress | None = None,
        left: asyncio.Event | None = None,
    ) -> Observation:
        """Sent again, as any runtime does, when the window reloads meanwhile. `left` is set when
        the caller is gone; see `InProcessWindows`."""
        link = InProcessWindows(self._sockets, self._registry, who, left=left)
        async with VSCodeRuntime(link=link, window=window.id, default_timeout=None) as runtime:
            return await runtime.act(action, on_progress=on_progress)
