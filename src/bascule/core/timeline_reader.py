"""Reads a timeline at the reader's own speed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, Self

from .timeline import Timeline, TimelineEntry

_MOST: Final = 20_000
_MOST_OUTPUT: Final = 1 << 20
"""Bytes of output a follower may be behind; then it misses the oldest."""


class TimelineReader:
    """Past and new entries of a timeline in batches, each with everything since the last.

    Used as a context. Who is too slow misses output first, and is then let go: `batches` ends, and
    it comes again with the number it has. Without `output` it is told entries alone.
    """

    def __init__(
        self, timeline: Timeline, *, after: int = 0, epoch: str = "", output: bool = True
    ) -> None:
        self._timeline = timeline
        self._waiting: deque[TimelineEntry] = deque(timeline.after(after, epoch))
        self._output = 0
        self._over = asyncio.Event()
        self._wake = asyncio.Event()
        self._unsubscribe = timeline.subscribe(self._take, output=output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        self._unsubscribe()
        self._over.set()
        self._wake.set()

    async def batches(
        self, *, heartbeat: float | None = None, gather: float = 0.0
    ) -> AsyncIterator[list[TimelineEntry]]:
        """Batches of entries; an empty one after `heartbeat` seconds without any.

        `gather`: seconds to wait for more entries before a batch is returned.
        """
        while True:
            if self._waiting:
                if gather and not self._over.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(gather):
                            await self._over.wait()
                batch = list(self._waiting)
                self._waiting.clear()
                self._output = 0
                yield batch
                continue
            if self._over.is_set():
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(heartbeat):
                    await self._wake.wait()
            except TimeoutError:
                yield []

    def _take(self, entry: TimelineEntry) -> None:
        if entry.number == 0:
            if self._output + entry.size > _MOST_OUTPUT:
                return
            self._output += entry.size
        self._waiting.append(entry)
        if len(self._waiting) > _MOST:
            self._waiting.clear()
            self.finish()
        self._wake.set()
