"""A unix socket of the hub for each session, over which the session's own window connects."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bascule.core.errors import AccessDenied
from bascule.core.sessions import SessionId
from bascule.hub.guard import HubGuard
from bascule.hub.identity import Identity
from bascule.hub.replies import ERRORS
from bascule.hub.settings import HubSettings
from bascule.serving.asgi import App, Receive, Scope, Send
from bascule.serving.listener import Listener
from bascule.serving.sockets import unix_listener

_SERVED_PATHS: Final = ("/health", "/socket.io", "/api/vscode/register", "/api/vscode/heartbeat/")
"""Prefixes of the paths that a session's window needs."""

MAX_CONNECTIONS: Final = 64
"""Maximum number of connections of one session to the hub. A window uses two, so 32 windows can
connect."""

MakeHubApp = Callable[[Identity], App]
"""Makes the hub's app for connections over a session's socket."""


def hub_socket_app(app: App, settings: HubSettings, identity: Identity) -> App:
    """`app` for connections from inside a session: all requests have that session's identity.

    Any process of the session can connect, so only the paths that its window needs are served.
    """

    async def identify(_path: str, _headers: dict[bytes, bytes]) -> Identity:
        return identity

    guarded = HubGuard(app, settings, identify)

    async def only_for_windows(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(_SERVED_PATHS):
            await guarded(scope, receive, send)
        else:
            await ERRORS.send(
                scope, send, AccessDenied("A session's window may not make this call")
            )

    return only_for_windows


class HubSockets:
    """One socket for each running session."""

    def __init__(self, make: MakeHubApp, settings: HubSettings) -> None:
        self._make = make
        self._settings = settings
        self._listeners: dict[SessionId, Listener] = {}

    async def open(self, session_id: SessionId, owner: str, path: Path) -> None:
        """Listen at `path`. Replaces a socket that an earlier hub left."""
        await self.close(session_id)
        name = f"session {session_id}"
        identity = Identity(name=name, owner=owner, scope="session", session_id=session_id)
        sock = await _bind_in_thread(path)
        listener = Listener(
            self._make(identity),
            self._settings,
            max_frame=self._settings.message_bytes + (1 << 16),
            ping_interval=None,
            max_connections=MAX_CONNECTIONS,
        )
        self._listeners[session_id] = listener
        await listener.start(sock)

    async def close(self, session_id: SessionId) -> None:
        listener = self._listeners.pop(session_id, None)
        if listener is not None:
            await listener.stop()

    async def aclose(self) -> None:
        await asyncio.gather(*map(self.close, tuple(self._listeners)))


async def _bind_in_thread(path: Path) -> socket.socket:
    """Bind in a thread. A thread cannot be cancelled, so on cancellation it closes its socket."""
    bound: list[socket.socket] = []
    is_cancelled = threading.Event()

    def bind() -> socket.socket:
        bound.append(_bind(path))
        if is_cancelled.is_set():
            bound[0].close()
        return bound[0]

    try:
        return await asyncio.to_thread(bind)
    except asyncio.CancelledError:
        is_cancelled.set()
        for sock in bound:  # the thread had finished, but nobody receives its result
            sock.close()
        raise


def _bind(path: Path) -> socket.socket:
    """Bind a socket with mode 666: the permissions of its directory restrict who can connect."""
    path.parent.mkdir(mode=0o711, exist_ok=True)
    sock = unix_listener(path, mode=0o666)
    sock.setblocking(False)
    return sock
