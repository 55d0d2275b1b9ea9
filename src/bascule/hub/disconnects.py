"""Detects HTTP clients that disconnect before they get their response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from fastapi import Request

CALLER_LEFT: Final[ContextVar[asyncio.Event | None]] = ContextVar("CALLER_LEFT", default=None)
"""Event that is set when the client of the current HTTP request disconnects, for code that has no
access to the request. `InProcessWindows` uses it."""


@asynccontextmanager
async def disconnect_of(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client disconnects while the block runs.

    Read the request's body first: this function discards all further messages of the client.
    """
    disconnected = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    watcher = asyncio.create_task(watch())
    try:
        yield disconnected
    finally:
        watcher.cancel()
        await asyncio.wait({watcher})
