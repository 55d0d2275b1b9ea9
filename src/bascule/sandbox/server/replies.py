"""Responses of the action server: JSON bodies, and errors with their HTTP status.

The body of every error is `{"detail": text, "error": {"code", "message", "detail"}}`: `detail` for
OpenHands' clients and people, `error` for ours. 404, 502, 503 and 504 are left to mean that the
sandbox is gone or paused: of these only 503 is ever sent, when the server stops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    DirectoryNotEmpty,
    EditConflict,
    InvalidAction,
    MessageTooLarge,
    PathExists,
    SandboxDied,
    UsageError,
)
from bascule.wire.errors import error_to_wire
from bascule.wire.jsontext import to_json
from bascule.wire.parcel import MEDIA_TYPE

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_STATUS: Mapping[type[BasculeError], int] = {
    AccessDenied: 403,
    MessageTooLarge: 413,
    InvalidAction: 422,
    PathExists: 409,
    DirectoryNotEmpty: 409,
    EditConflict: 409,
    SandboxDied: 503,
}
_JSON = (b"content-type", b"application/json")
_PARCEL = (b"content-type", MEDIA_TYPE.encode())
_PIECE = 1 << 20


class RequestRefused(Exception):
    """Raised to answer a request with this error and HTTP status."""

    def __init__(self, status: int, error: BasculeError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete, so no response is sent."""


def status_of(error: BasculeError) -> int:
    """400 for what was asked wrongly, 500 for what could not be finished, some more exactly."""
    return _STATUS.get(type(error)) or (400 if isinstance(error, UsageError) else 500)


def error_body(error: BasculeError) -> bytes:
    return to_json({"detail": error.message, "error": error_to_wire(error)})


async def send_json(send: Send, body: bytes, status: int = 200) -> None:
    headers = [_JSON, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await _send_in_pieces(send, body)


async def send_parcel(send: Send, parcel: tuple[bytes, bytes]) -> None:
    size = sum(map(len, parcel))
    headers = [_PARCEL, (b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": parcel[0], "more_body": True})
    await _send_in_pieces(send, parcel[1])


async def _send_in_pieces(send: Send, body: bytes) -> None:
    """The last of a response. Given whole, the transport would copy what the socket does not take
    at once."""
    view = memoryview(body)
    while len(view) > _PIECE:
        await send({"type": "http.response.body", "body": view[:_PIECE], "more_body": True})
        view = view[_PIECE:]
    await send({"type": "http.response.body", "body": view})


async def send_error(
    scope: Scope, send: Send, error: BasculeError, status: int | None = None
) -> None:
    """Answer with an error; a WebSocket's handshake is refused with the same answer."""
    body, status = error_body(error), status or status_of(error)
    if scope["type"] == "http":
        await send_json(send, body, status)
        return
    start = {"type": "websocket.http.response.start", "status": status, "headers": [_JSON]}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request; the guard has bounded it. Raises `ClientDisconnected`."""
    message = await _part(receive)
    if not message.get("more_body"):
        return bytes(message["body"])
    parts = [message["body"]]
    while message.get("more_body"):
        message = await _part(receive)
        parts.append(message["body"])
    return b"".join(parts)


async def _part(receive: Receive) -> Message:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientDisconnected
    return message
