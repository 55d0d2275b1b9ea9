"""A unix socket of the hub in each session, over which the session's own window connects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bascule.core.errors import AccessDenied
from bascule.core.sessions import SessionId
from bascule.hub.guard import HubGuard
from bascule.hub.identity import Identity
from bascule.hub.replies import App, Receive, Scope, Send, send_error
from bascule.hub.settings import HubSettings
from bascule.sandbox.server.listener import Listener

_OPEN: Final = ("/health", "/socket.io", "/api/vscode/register", "/api/vscode/heartbeat/")
"""Prefixes of the paths that a session's window needs."""

MOST_CONNECTIONS: Final = 64
"""Connections of one session to the hub at a time: two for each of its windows."""

MakeHubApp = Callable[[Identity], App]
"""Makes the hub's app for connections over a session's socket."""


def hub_socket_app(app: App, settings: HubSettings, identity: Identity) -> App:
    """`app` for connections from inside a session: all requests count as that session's identity.

    Any process of the session can come, so nothing is let on but what its window needs.
    """

    async def identify(_path: str, _headers: dict[bytes, bytes]) -> Identity:
        return identity

    guarded = HubGuard(app, settings, identify)

    async def only_for_windows(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(_OPEN):
            await guarded(scope, receive, send)
        else:
            await send_error(scope, send, AccessDenied("A session's window may not do this"))

    return only_for_windows


class HubSockets:
    """One socket for each running session."""

    def __init__(self, make: MakeHubApp, settings: HubSettings) -> None:
        self._make = make
        self._settings = settings
        self._listeners: dict[SessionId, Listener] = {}

    async def open(self, session_id: SessionId, owner: str, path: Path) -> None:
        """Listen at `path`, in place of a socket that an earlier hub left."""
        await self.close(session_id)
        name = f"session {session_id}"
        identity = Identity(name=name, owner=owner, scope="session", session_id=session_id)
        sock = await _bound_for_us(path)
        listener = Listener(
            self._make(identity),
            self._settings,
            max_frame=self._settings.message_bytes + (1 << 16),
            ping_interval=None,
            max_connections=MOST_CONNECTIONS,
        )
        await listener.start(sock)
        self._listeners[session_id] = listener

    async def close(self, session_id: SessionId) -> None:
        listener = self._listeners.pop(session_id, None)
        if listener is not None:
            await listener.stop()

    async def aclose(self) -> None:
        await asyncio.gather(*map(self.close, tuple(self._listeners)))


async def _bound_for_us(path: Path) -> socket.socket:
    """Bind in a thread, and close the socket if the caller was cancelled: a thread cannot be."""
    binding = asyncio.ensure_future(asyncio.to_thread(_bound, path))
    try:
        return await asyncio.shield(binding)
    except asyncio.CancelledError:
        binding.add_done_callback(_close)
        raise


def _close(binding: asyncio.Future[socket.socket]) -> None:
    if not binding.cancelled() and binding.exception() is None:
        binding.result().close()


def _bound(path: Path) -> socket.socket:
    """Bind a socket that everyone may connect to; the permissions of its directory restrict it."""
    path.parent.mkdir(mode=0o711, exist_ok=True)
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(0o666)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
