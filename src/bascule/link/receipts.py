"""Confirms received observations to windows, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.identity import EventId
from bascule.core.windows import WindowId

_COLLECT_SECONDS: Final = 0.2
"""Seconds to collect receipts for one message. One message per receipt would double the number of
messages."""

Send = Callable[[WindowId, Sequence[EventId]], Awaitable[None]]


class Receipts(Closable):
    """Collects ids and passes them to `send`, at the latest on close."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ids: dict[WindowId, list[EventId]] = {}
        self._send_task: asyncio.Task[None] | None = None

    def add(self, window_id: WindowId, action_id: EventId) -> None:
        self._ids.setdefault(window_id, []).append(action_id)
        if self._send_task is None:
            self._send_task = asyncio.create_task(self._send_soon())

    async def aclose(self) -> None:
        if self._send_task is not None:
            self._send_task.cancel()
            await asyncio.gather(self._send_task, return_exceptions=True)
        await self._flush()

    async def _send_soon(self) -> None:
        await asyncio.sleep(_COLLECT_SECONDS)
        self._send_task = None
        await self._flush()

    async def _flush(self) -> None:
        collected, self._ids = self._ids, {}
        for window_id, ids in collected.items():
            await self._send(window_id, ids)
