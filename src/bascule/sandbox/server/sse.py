"""Server-sent events: encoding, and a response that stays open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from bascule.serving.asgi import Send
from bascule.serving.connection import Connection
from bascule.wire import to_json

from .stream import Frame, encode_frame, name_of

Events = AsyncGenerator[bytes, None]
"""Encoded events; `b""` stands for `HEARTBEAT` seconds without an event."""
HEARTBEAT = 15.0
"""Seconds without an event after which the stream sends a comment."""


def event(name: str, data: bytes) -> bytes:
    """Encode one event. `to_json` writes no line breaks, so one `data` line is enough."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


async def start_events(send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_events(
    connection: Connection, send: Send, events: Events, *, finish: Callable[[], None]
) -> None:
    """Answer with events until they end. Calls `finish`, which has to end them, if the client
    disconnects."""
    connection.when_lost = finish
    try:
        await start_events(send)
        await send_on(send, events)
        await send({"type": "http.response.body", "body": b""})
    finally:
        connection.when_lost = None


async def send_on(send: Send, events: Events) -> None:
    """Send events in a response that has begun, and a comment after each heartbeat interval.

    Writing the comment detects a client that vanished without closing, and keeps proxies from
    closing an idle connection.
    """
    async with aclosing(events):
        async for each in events:
            body = each or b": still here\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})


async def encoded(frames: Callable[..., AsyncIterator[Frame | None]]) -> Events:
    """Each frame as an event."""
    async for frame in frames(heartbeat=HEARTBEAT):
        yield b"" if frame is None else event(name_of(frame), to_json(encode_frame(frame)))
