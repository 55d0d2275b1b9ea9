"""Confirms received observations to windows, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.identity import EventId
from bascule.core.windows import WindowId

_GATHER: Final = 0.2
"""Seconds to collect receipts for one message. One message per receipt would double the number of
messages."""

Send = Callable[[WindowId, Sequence[EventId]], Awaitable[None]]


class Receipts(Closable):
    """Collects ids and passes them to `send`, at the latest on close."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ids: dict[WindowId, list[EventId]] = {}
        self._sending: asyncio.Task[None] | None = None

    def add(self, window_id: WindowId, action_id: EventId) -> None:
        self._ids.setdefault(window_id, []).append(action_id)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_soon())

    async def aclose(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._flush()

    async def _send_soon(self) -> None:
        await asyncio.sleep(_GATHER)
        self._sending = None
        await self._flush()

    async def _flush(self) -> None:
        gathered, self._ids = self._ids, {}
        for window_id, ids in gathered.items():
            await self._send(window_id, ids)
