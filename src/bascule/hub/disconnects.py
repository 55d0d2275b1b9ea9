"""Notices HTTP clients that disconnect before they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request


@asynccontextmanager
async def disconnect_of(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client disconnects while the block runs.

    The body of the request has to be read before: messages that come from here on are dropped.
    """
    gone = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()
        await asyncio.wait({watching})
