"""VS Code windows of sessions: starts VS Code on demand and runs actions in the window."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bascule.core.actions import Action
from bascule.core.contracts import OnProgress
from bascule.core.errors import AccessDenied, BasculeError, LinkError, VersionMismatch
from bascule.core.observations import Observation
from bascule.core.sessions import SessionId
from bascule.core.windows import Window, WindowId
from bascule.hub.identity import Identity
from bascule.hub.inprocess_windows import InProcessWindows
from bascule.hub.merge_notices import MergeNotices
from bascule.hub.registry import Registry
from bascule.hub.sockets import Sockets
from bascule.runtime.window_delivery import WindowDelivery
from bascule.wire import error_observation

from .sandbox_client import SandboxClient
from .stages import within

_START_TIMEOUT: Final = 60.0
"""Maximum seconds for VS Code to start."""


class SessionWindows:
    """Each session has one VS Code, which several browsers may show.

    A sandbox reports when its VS Code ends. So the hub knows whether VS Code runs, and asks the
    sandbox to start it only if it may not be running.
    """

    def __init__(self, sockets: Sockets, registry: Registry) -> None:
        self._sockets = sockets
        self._registry = registry
        self.merges = MergeNotices(sockets.server, registry)
        self._vscode_running: set[SessionId] = set()
        """Sessions whose VS Code runs, as far as the hub knows."""
        self._with_headless: set[SessionId] = set()
        """Sessions with a headless window."""

    async def open(
        self, session_id: SessionId, client: SandboxClient, *, headless: bool = False
    ) -> None:
        """Start VS Code. `headless`: also open a window that stays when no browser shows it."""
        if session_id in (self._with_headless if headless else self._vscode_running):
            return
        await client.start_vscode(window=headless, timeout=_START_TIMEOUT)
        self._vscode_running.add(session_id)
        if headless:
            self._with_headless.add(session_id)

    def vscode_ended(self, session_id: SessionId) -> None:
        """Record that the session's VS Code has ended, or that the hub can no longer see whether it
        runs, because the event stream of the sandbox has ended."""
        self._vscode_running.discard(session_id)
        self._with_headless.discard(session_id)

    def find(self, session_id: SessionId) -> Window | None:
        """The session's window that accepts actions, if there is one."""
        for window in self._registry.windows():
            if window.session_id == session_id and window.status == "healthy":
                return window
        return None

    def registered_ids(self) -> set[WindowId]:
        """All registered windows, of every owner."""
        return {window.id for window in self._registry.windows()}

    async def wait_for_window(self, session_id: SessionId, *, timeout: float) -> Window:
        """The session's window, as soon as it accepts actions. Raises an error after `timeout`."""
        async with within(timeout, "start_timeout"):
            return await self.wait_without_limit(session_id)

    async def wait_without_limit(self, session_id: SessionId) -> Window:
        """The session's window, as soon as it accepts actions. Waits without a time limit."""
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
        event: Mapping[str, Any],
        *,
        on_progress: OnProgress | None = None,
        disconnected: asyncio.Event | None = None,
    ) -> Observation:
        """Run a valid action, whose encoded form is `event`, in the window. If the window reloads
        meanwhile, the action is sent again.

        `disconnected` is set when the caller has disconnected; see `InProcessWindows`.
        """
        link = InProcessWindows(self._sockets, self._registry, who, disconnected=disconnected)
        delivery = WindowDelivery(
            action,
            window.id,
            send=partial(link.send, window.id, event),
            returned=partial(link.wait_until_healthy, window.id),
            on_progress=on_progress,
        )
        try:
            return await delivery.run()
        except (LinkError, AccessDenied, VersionMismatch):
            raise
        except BasculeError as error:
            return error_observation(error, action.id)
