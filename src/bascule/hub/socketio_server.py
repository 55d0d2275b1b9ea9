"""The hub's Socket.IO server: its settings, the check of new clients, and the first message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import socketio

import bascule
from bascule.core.errors import AccessDenied, VersionMismatch
from bascule.link.socketio import PROTOCOL, TextPacket, ensure_protocol
from bascule.wire import error_to_wire

from .guard import IDENTITY
from .identity import Identity
from .settings import HubSettings

WINDOW: Final = "/window"
RUNTIME: Final = "/runtime"
PAGE: Final = "/page"
"""Namespace of the hub's own web page; `web.feed` handles it."""


def make_server() -> socketio.AsyncServer:
    return socketio.AsyncServer(
        async_mode="asgi",
        namespaces=[WINDOW, RUNTIME, PAGE],
        transports=["websocket"],
        cors_allowed_origins=[],  # the guard has checked the origin
        max_http_buffer_size=1 << 40,  # in effect no limit: the listener limits the size of frames
        http_compression=False,
        ping_interval=10,
        ping_timeout=20,  # on a busy machine a client may answer late
        serializer=TextPacket,
        client_manager=_Manager(),
    )


def connecting_identity(environ: Mapping[str, Any], *scopes: str) -> Identity:
    """The identity of a new client. Refuses clients that have only a cookie, and tokens whose scope
    is not in `scopes`."""
    asgi_scope = environ["asgi.scope"]
    identity: Identity = asgi_scope[IDENTITY]
    headers = dict(asgi_scope["headers"])
    if b"cookie" in headers and b"authorization" not in headers:
        raise refusal("A browser's cookie is valid on /page only; programs need a token")
    if identity.scope not in scopes:
        raise refusal(
            f"A token of scope {identity.scope} may not connect here; "
            f"use a token of scope {' or '.join(scopes)}"
        )
    return identity


def refusal(message: str) -> socketio.exceptions.ConnectionRefusedError:
    error = AccessDenied(message)
    return socketio.exceptions.ConnectionRefusedError(error.message, error_to_wire(error))


class Greeter:
    """Greets clients that have connected, or disconnects those with another protocol version."""

    def __init__(
        self, server: socketio.AsyncServer, settings: HubSettings, issue_nonce: Callable[[str], str]
    ) -> None:
        """`issue_nonce`: returns a nonce for a connection, given its `sid`. The window on that
        connection needs the nonce to register."""
        self._server = server
        self._settings = settings
        self._issue_nonce = issue_nonce

    def greet(self, sid: str, namespace: str, auth: object) -> None:
        """Send `hello` to a new client. Call this in the handler of `connect`."""
        # `hello` must come after Socket.IO's confirmation, which is sent when the handler returns.
        # So a background task sends `hello`: it starts only after the confirmation is queued.
        self._server.start_background_task(self._say_hello, sid, namespace, auth)

    async def _say_hello(self, sid: str, namespace: str, auth: object) -> None:
        fields = auth if isinstance(auth, Mapping) else {}
        try:
            ensure_protocol(fields.get("protocol"), who=str(fields.get("client") or "the client"))
        except VersionMismatch as error:
            await self._server.emit("refused", error_to_wire(error), to=sid, namespace=namespace)
            await self._server.disconnect(sid, namespace=namespace)
            return
        hello = {
            "protocol": PROTOCOL,
            "version": bascule.__version__,
            "limits": {"message_bytes": self._settings.message_bytes},
            "heartbeat": self._settings.heartbeat,
        }
        if namespace == WINDOW:
            hello["nonce"] = self._issue_nonce(sid)
        await self._server.emit("hello", hello, to=sid, namespace=namespace)


class _Manager(socketio.AsyncManager):  # type: ignore[misc]  # the library has no types
    """Sends a message to a single client directly. The library would create a task for each
    message, because of rooms; the hub uses no rooms."""

    async def emit(
        self,
        event: str,
        data: object,
        namespace: str,
        *args: Any,
        to: str | None = None,
        callback: object = None,
        **more: Any,
    ) -> None:
        eio_sid = self.eio_sid_from_sid(to, namespace) if to and callback is None else None
        if eio_sid is None:
            await super().emit(event, data, namespace, *args, to=to, callback=callback, **more)
            return
        packet = TextPacket(namespace=namespace, data=[event, data])
        await self.server.eio.send(eio_sid, packet.encode())
