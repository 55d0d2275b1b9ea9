"""ASGI types, and helpers that read request bodies and send responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]
"""Name in lower case, value."""

JSON: Header = (b"content-type", b"application/json")
_PIECE_BYTES = 1 << 20


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete, so no response is sent."""


async def read_body(receive: Receive) -> bytes:
    """Return the whole request body, whose size `request_rules.bounded` limits.

    Raises `ClientDisconnected`.
    """
    message = await _receive_part(receive)
    if not message.get("more_body"):
        return bytes(message["body"])
    parts = [message["body"]]
    while message.get("more_body"):
        message = await _receive_part(receive)
        parts.append(message["body"])
    return b"".join(parts)


async def read_pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the request body in pieces as they arrive. Raises `ClientDisconnected`."""
    more = True
    while more:
        message = await _receive_part(receive)
        more = message.get("more_body", False)
        yield message["body"]


async def _receive_part(receive: Receive) -> Message:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientDisconnected
    return message


async def send_json(send: Send, body: bytes, status: int = 200) -> None:
    await send_whole(send, status, [JSON], body)


async def send_whole(send: Send, status: int, headers: Iterable[Header], *parts: bytes) -> None:
    """Send a response of known length.

    The last part is sent in pieces of 1 MiB. If the socket is full, the transport copies the unsent
    rest of a write, so one large write would copy most of the body.
    """
    response_headers = [*headers]
    if status != HTTPStatus.NO_CONTENT:  # HTTP forbids Content-Length in a 204
        response_headers.append((b"content-length", str(sum(map(len, parts))).encode()))
    await send({"type": "http.response.start", "status": status, "headers": response_headers})
    for part in parts[:-1]:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    view = memoryview(parts[-1])
    while len(view) > _PIECE_BYTES:
        await send({"type": "http.response.body", "body": view[:_PIECE_BYTES], "more_body": True})
        view = view[_PIECE_BYTES:]
    await send({"type": "http.response.body", "body": view})
