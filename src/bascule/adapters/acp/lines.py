"""Lines of bounded size, and bytes that wait to be written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from bascule.core.errors import MessageTooLarge, QuotaExceeded

MAX_LINE_BYTES: Final = 32 << 20
"""Maximum bytes of one message. Prompts may contain images."""
MAX_PENDING_BYTES: Final = 2 * MAX_LINE_BYTES
"""Maximum bytes that are kept for a peer that does not read."""


class LineSplitter:
    """Splits a stream of bytes into lines. An incomplete last line is never returned."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without empty ones. Raises `MessageTooLarge`."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            self._add(end)
            lines.append(b"".join(self._pieces).rstrip(b"\r"))
            self._pieces, self._size = [], 0
        self._add(rest)
        return [line for line in lines if line.strip()]

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise MessageTooLarge(
                f"A message is longer than {self._limit:,} bytes, the maximum", limit=self._limit
            )
        if piece:
            self._pieces.append(piece)


class LineOutbox:
    """Writes lines in order. `run` does the work until it is cancelled or a write fails."""

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], reader: str, limit: int = MAX_PENDING_BYTES
    ) -> None:
        """`reader`: the peer's name in errors."""
        self._write = write
        self._reader = reader
        self._limit = limit
        self._pending: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()

    def put(self, line: bytes) -> None:
        """Add a line. Raises `QuotaExceeded` if the peer has not read for too long."""
        if self._size > self._limit:
            raise QuotaExceeded(
                f"{self._reader} does not read: more than {self._limit:,} bytes wait for it",
                limit=self._limit,
            )
        self._pending.append(line + b"\n")
        self._size += len(line) + 1
        self._notify()

    async def wait_for_room(self) -> None:
        """Wait until at most half of the limit is pending."""
        while self._size > self._limit // 2:
            await self._changed.wait()

    async def wait_until_empty(self) -> None:
        """Wait until everything is written."""
        while self._size:
            await self._changed.wait()

    async def run(self) -> None:
        while True:
            while self._pending:
                line = self._pending[0]
                await self._write(line)
                self._pending.popleft()
                self._size -= len(line)
                self._notify()
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
