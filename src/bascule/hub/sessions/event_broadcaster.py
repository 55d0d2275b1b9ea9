"""Publishes events of sessions to the subscribers in this process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Final

from bascule.core.sessions import SessionId

from .rows import EventRow

_MOST: Final = 1000
"""Events a subscriber may lag behind before its subscription ends; it can reconnect."""


class SessionEventSubscription:
    """One subscriber's queue. `None` in the queue marks the end."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[EventRow | None] = asyncio.Queue(_MOST + 1)

    def put(self, row: EventRow) -> bool:
        """Add an event. False if the subscriber is too far behind; its subscription then ends."""
        if self._queue.qsize() < _MOST:
            self._queue.put_nowait(row)
            return True
        self.finish()
        return False

    def finish(self) -> None:
        if not self._queue.full():
            self._queue.put_nowait(None)

    async def events(self, *, heartbeat: float) -> AsyncIterator[EventRow | None]:
        """Each event as it arrives, and None after every `heartbeat` seconds without one."""
        while True:
            try:
                async with asyncio.timeout(heartbeat):
                    row = await self._queue.get()
            except TimeoutError:
                yield None
                continue
            if row is None:
                return
            yield row


class SessionEventBroadcaster:
    """Passes events to subscribers without waiting for any of them."""

    def __init__(self) -> None:
        self._subscriptions: defaultdict[SessionId, set[SessionEventSubscription]] = defaultdict(
            set
        )
        self._is_closed = False

    def subscribe(self, session_id: SessionId) -> SessionEventSubscription:
        subscription = SessionEventSubscription()
        if self._is_closed:
            subscription.finish()
        else:
            self._subscriptions[session_id].add(subscription)
        return subscription

    def unsubscribe(self, session_id: SessionId, subscription: SessionEventSubscription) -> None:
        self._subscriptions[session_id].discard(subscription)
        if not self._subscriptions[session_id]:
            del self._subscriptions[session_id]

    def publish(self, row: EventRow) -> None:
        for each in tuple(self._subscriptions.get(row.session_id, ())):
            if not each.put(row):
                self._subscriptions[row.session_id].discard(each)

    def close(self, session_id: SessionId | None = None) -> None:
        """End the subscriptions of one session, or of all sessions."""
        chosen = list(self._subscriptions) if session_id is None else [session_id]
        self._is_closed = self._is_closed or session_id is None
        for each in chosen:
            for subscription in self._subscriptions.get(each, ()):
                subscription.finish()
