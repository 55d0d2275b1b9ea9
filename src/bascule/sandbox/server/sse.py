"""Server-sent events: encoding, and a response that stays open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from bascule.wire import to_json

from .replies import Send
from .stream import Frame, encode_frame, name_of

_HEARTBEAT = 15.0
"""Seconds of silence after which the stream says that it is still there."""


def event(name: str, data: bytes) -> bytes:
    """One event. JSON as we write it has no line breaks, so one `data` line holds it."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


async def start_events(send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_frames(send: Send, frames: Callable[..., AsyncIterator[Frame | None]]) -> None:
    """Send each frame, and a comment after a silence: by writing, a peer that left without a word
    is noticed, and whoever stands between is kept from hanging up."""
    async for frame in frames(heartbeat=_HEARTBEAT):
        body = b": still here\n\n"
        if frame is not None:
            body = event(name_of(frame), to_json(encode_frame(frame)))
        await send({"type": "http.response.body", "body": body, "more_body": True})
