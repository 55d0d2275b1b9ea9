"""Events of a session (ports, workspace, VS Code), sent to every subscriber."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_MAX_PENDING: Final = 1000
"""Events a subscriber may lag behind. Past that its stream ends; the subscriber reconnects and gets
the current state first."""


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    name: str
    data: Mapping[str, Any]


class SessionEvents:
    """Sends each event to everybody subscribed at that moment, and stores none."""

    def __init__(self) -> None:
        self._subscriptions: set[SubscriberQueue] = set()
        self._closed = False

    def publish(self, name: str, **data: Any) -> None:
        for subscription in tuple(self._subscriptions):
            subscription.add(PublishedEvent(name, data))

    def subscribe(self) -> SubscriberQueue:
        subscription = SubscriberQueue(self._subscriptions)
        if self._closed:
            subscription.finish()
        return subscription

    def close(self) -> None:
        """End every subscription once its pending events are delivered."""
        self._closed = True
        for subscription in tuple(self._subscriptions):
            subscription.finish()


class SubscriberQueue:
    """Events published from now on, until `finish`."""

    def __init__(self, others: set[SubscriberQueue]) -> None:
        self._others = others
        self._pending: deque[PublishedEvent] = deque()
        self._finished = False
        self._wake = asyncio.Event()
        others.add(self)

    def add(self, event: PublishedEvent) -> None:
        self._pending.append(event)
        if len(self._pending) > _MAX_PENDING:
            self._pending.clear()
            self.finish()
        self._wake.set()

    def finish(self) -> None:
        self._finished = True
        self._others.discard(self)
        self._wake.set()

    async def events(self, *, heartbeat: float) -> AsyncIterator[PublishedEvent | None]:
        """Each event as it is published; None after every `heartbeat` seconds without one."""
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self._finished:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(heartbeat):
                    await self._wake.wait()
            except TimeoutError:
                yield None
