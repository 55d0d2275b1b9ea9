"""Tells windows when nobody waits for an action any more: they withdraw their question about it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.identity import EventId

from .registry import Host
from .switchboard import PendingAction, Switchboard

_GRACE: Final = 10.0
"""Seconds for a caller to reconnect and send the action again under the same id."""

OnAbandoned = Callable[[Host, Sequence[EventId]], Awaitable[None]]


class AbandonedActions(Closable):
    """Awaits `on_abandoned` for actions whose caller disconnected and did not send them again in
    time."""

    def __init__(
        self, switchboard: Switchboard, on_abandoned: OnAbandoned, *, grace: float = _GRACE
    ) -> None:
        self._switchboard = switchboard
        self._on_abandoned = on_abandoned
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self, actions: Sequence[PendingAction]) -> None:
        """Watch these actions: their caller has disconnected."""
        if not actions:
            return
        task = asyncio.create_task(self._wait(actions))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, actions: Sequence[PendingAction]) -> None:
        await asyncio.sleep(self._grace)
        by_host: dict[Host, list[EventId]] = defaultdict(list)
        for action in actions:
            if action.host.is_connected and not self._switchboard.is_awaited(action.id):
                by_host[action.host].append(action.id)
        for host, ids in by_host.items():
            await self._on_abandoned(host, ids)
