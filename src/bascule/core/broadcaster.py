"""Passes events to subscribers without waiting for any of them, with bounded memory."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, Generic, Self, TypeVar

_Item = TypeVar("_Item")

MAX_PENDING: Final = 1000
"""Maximum number of pending events of a subscriber. Beyond that, the subscription ends, and the
subscriber can subscribe again."""


class Inbox(ABC, Generic[_Item]):
    """Items that one reader has not read yet.

    A subclass limits how many items it holds, and calls `notify` when it has new items. Use an
    inbox as a context manager, or call `finish`.
    """

    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._finished = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Accept no more items. `items` yields the pending ones, then ends."""
        self._finished.set()
        self._wake.set()

    def notify(self) -> None:
        """Wake the reader."""
        self._wake.set()

    async def items(
        self, *, heartbeat: float | None = None, gather: float = 0.0
    ) -> AsyncIterator[_Item | None]:
        """Yield each item as it arrives, and None after every `heartbeat` seconds without an item.

        `gather`: seconds to wait after an item arrived, for subclasses that combine the items of
        that time into one.
        """
        while True:
            if self._is_empty():
                if self._finished.is_set():
                    return
                self._wake.clear()
                try:
                    async with asyncio.timeout(heartbeat):
                        await self._wake.wait()
                except TimeoutError:
                    yield None
                continue
            if gather:
                with suppress(TimeoutError):
                    async with asyncio.timeout(gather):
                        await self._finished.wait()
            if not self._is_empty():  # a slow reader's items may have been dropped meanwhile
                yield self._take()

    @abstractmethod
    def _is_empty(self) -> bool: ...

    @abstractmethod
    def _take(self) -> _Item:
        """Remove and return the next item. The caller has checked that the inbox is not empty."""


class Subscription(Inbox[_Item]):
    """Events published since `Broadcaster.subscribe`, each on its own."""

    def __init__(self, unsubscribe: Callable[[Subscription[_Item]], None]) -> None:
        super().__init__()
        self._unsubscribe = unsubscribe
        self._pending: deque[_Item] = deque()

    def add(self, event: _Item) -> None:
        """Add an event. If too many are pending, drop it and finish, so that the reader notices
        that it missed an event."""
        if len(self._pending) < MAX_PENDING:
            self._pending.append(event)
            self.notify()
        else:
            self.finish()

    def finish(self) -> None:
        self._unsubscribe(self)
        super().finish()

    def _is_empty(self) -> bool:
        return not self._pending

    def _take(self) -> _Item:
        return self._pending.popleft()


class Broadcaster(Generic[_Item]):
    """Passes each event to the current subscribers of its topic, and stores none."""

    def __init__(self) -> None:
        self._subscriptions: defaultdict[str, set[Subscription[_Item]]] = defaultdict(set)
        self._is_closed = False

    def subscribe(self, topic: str = "") -> Subscription[_Item]:
        """Subscribe to the events of `topic` from now on. The subscription of a closed broadcaster
        ends at once."""
        subscription = Subscription[_Item](lambda ended: self._remove(topic, ended))
        if self._is_closed:
            subscription.finish()
        else:
            self._subscriptions[topic].add(subscription)
        return subscription

    def publish(self, event: _Item, *, topic: str = "") -> None:
        for subscription in tuple(self._subscriptions.get(topic, ())):
            subscription.add(event)

    def end(self, topic: str) -> None:
        """End the subscriptions of a topic once their pending events are read."""
        for subscription in tuple(self._subscriptions.get(topic, ())):
            subscription.finish()

    def close(self) -> None:
        """End all subscriptions. Later subscriptions end at once."""
        self._is_closed = True
        for topic in tuple(self._subscriptions):
            self.end(topic)

    def _remove(self, topic: str, subscription: Subscription[_Item]) -> None:
        if (subscribed := self._subscriptions.get(topic)) is not None:
            subscribed.discard(subscription)
            if not subscribed:
                del self._subscriptions[topic]
