"""Reading a timeline at one's own pace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Self

from .timeline import Entry, Timeline

_MOST: Final = 20_000
_MOST_OUTPUT: Final = 1 << 20
"""Bytes of output a follower may be behind; then it misses the oldest."""


class Following:
    """What a timeline held and holds from then on, in batches: all that came since the last one.

    Used as a context. Who is too slow misses output first, and is then let go: `batches` ends, and
    it comes again with the number it has. Without `output` it is told entries alone.
    """

    def __init__(
        self, timeline: Timeline, *, after: int = 0, epoch: str = "", output: bool = True
    ) -> None:
        self._timeline = timeline
        self._waiting: deque[Entry] = deque(timeline.after(after, epoch))
        self._output = 0
        self._is_over = False
        self._wake = asyncio.Event()
        self._unsubscribe = timeline.subscribe(self._take, output=output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        self._unsubscribe()
        self._is_over = True
        self._wake.set()

    async def batches(self, *, heartbeat: float | None = None) -> AsyncIterator[list[Entry]]:
        """An empty one after every `heartbeat` seconds without news."""
        while True:
            if self._waiting:
                batch = list(self._waiting)
                self._waiting.clear()
                self._output = 0
                yield batch
                continue
            if self._is_over:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(heartbeat):
                    await self._wake.wait()
            except TimeoutError:
                yield []

    def _take(self, entry: Entry) -> None:
        if entry.number == 0:
            if self._output + entry.size > _MOST_OUTPUT:
                return
            self._output += entry.size
        self._waiting.append(entry)
        if len(self._waiting) > _MOST:
            self._waiting.clear()
            self.finish()
        self._wake.set()
