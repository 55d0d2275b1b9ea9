"""Reads a blocking download in a thread, as an async iterator of chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from bascule.sandbox.files.transfers import FileDownload


async def pieces_of(
    download: FileDownload, in_thread: Callable[..., Awaitable[Any]]
) -> AsyncGenerator[bytes, None]:
    """Yield each piece, read in a thread.

    Closing the generator closes the download, after the thread that reads from it has returned.
    """
    iterator = iter(download)
    try:
        while True:
            reading = asyncio.ensure_future(in_thread(next, iterator, b""))
            try:
                piece: bytes = await asyncio.shield(reading)
            except asyncio.CancelledError:
                await asyncio.wait({reading})
                raise
            if not piece:
                return
            yield piece
    finally:
        download.close()
