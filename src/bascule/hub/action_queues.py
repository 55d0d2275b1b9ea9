"""Queues that keep the order in which actions are sent to a window.

Before it sends an action, the hub may have to resume a paused session or open a record. These steps
take different times and run concurrently; the actions are still sent in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bascule.core.errors import ActionCancelled
from bascule.core.identity import EventId
from bascule.core.windows import WindowId

from .switchboard import Caller


class QueuedAction:
    """The position of one action in its window's queue."""

    def __init__(self, action_id: EventId, caller: Caller) -> None:
        self.action_id = action_id
        self.caller = caller
        self.is_cancelled = False
        self.is_first = asyncio.Event()

    async def wait(self) -> None:
        """Wait until every earlier action was sent or failed.

        Raises `ActionCancelled` if this action was cancelled meanwhile.
        """
        await self.is_first.wait()
        if self.is_cancelled:
            raise ActionCancelled("The action was cancelled before it was sent to the window")


class ActionQueues:
    """The queues of all windows. A window without waiting actions has no queue."""

    def __init__(self) -> None:
        self._queues: dict[WindowId, dict[QueuedAction, None]] = {}
        self._waiting: dict[EventId, QueuedAction] = {}

    @asynccontextmanager
    async def turn(
        self, window_id: WindowId, action_id: EventId, caller: Caller
    ) -> AsyncIterator[QueuedAction]:
        """Join the queue behind earlier actions; leave it when the block ends."""
        queued = self._waiting[action_id] = QueuedAction(action_id, caller)
        self._queues.setdefault(window_id, {})[queued] = None
        self._release_first(window_id)
        try:
            yield queued
        finally:
            if self._waiting.get(action_id) is queued:
                del self._waiting[action_id]
            del self._queues[window_id][queued]
            self._release_first(window_id)

    def cancel(self, action_id: EventId, caller: Caller) -> bool:
        """Cancel this caller's action before it is sent. False if it is not in a queue."""
        queued = self._waiting.get(action_id)
        if queued is None or queued.caller is not caller:
            return False
        queued.is_cancelled = True
        return True

    def _release_first(self, window_id: WindowId) -> None:
        queue = self._queues[window_id]
        if queue:
            next(iter(queue)).is_first.set()
        else:
            del self._queues[window_id]
