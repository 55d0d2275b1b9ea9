"""Tells windows when no caller waits for an action any more, so that they withdraw its question."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.identity import EventId

from .registry import Host
from .switchboard import Ask, Switchboard

_GRACE: Final = 10.0
"""Seconds for an asker to come back and ask again under the same id: links break and are mended."""

Tell = Callable[[Host, Sequence[EventId]], Awaitable[None]]


class AbandonedActions(Closable):
    """Watches actions whose caller left. Awaits `tell` with those that no caller asks for again."""

    def __init__(self, switchboard: Switchboard, tell: Tell, *, grace: float = _GRACE) -> None:
        self._switchboard = switchboard
        self._tell = tell
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()

    def left(self, asks: Sequence[Ask]) -> None:
        """The caller of these actions has left."""
        if not asks:
            return
        task = asyncio.create_task(self._wait(asks))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, asks: Sequence[Ask]) -> None:
        await asyncio.sleep(self._grace)
        by_host: dict[Host, list[EventId]] = defaultdict(list)
        for ask in asks:
            if ask.host.is_connected and not self._switchboard.is_awaited(ask.id):
                by_host[ask.host].append(ask.id)
        for host, ids in by_host.items():
            await self._tell(host, ids)
