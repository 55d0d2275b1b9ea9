"""What happens in a session, told to whoever listens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_MOST_HELD: Final = 1000
"""News a listener may be behind. Past that its stream ends: it comes again, and is told how
things stand."""


@dataclass(frozen=True, slots=True)
class News:
    name: str
    data: Mapping[str, Any]


class Bulletin:
    """Hands on what is told to all who listen at that moment; it keeps nothing."""

    def __init__(self) -> None:
        self._listeners: set[Listening] = set()
        self._closed = False

    def tell(self, name: str, **data: Any) -> None:
        for listener in tuple(self._listeners):
            listener.take(News(name, data))

    def listen(self) -> Listening:
        listening = Listening(self._listeners)
        if self._closed:
            listening.finish()
        return listening

    def close(self) -> None:
        """Every stream ends, once all that was told before was given."""
        self._closed = True
        for listener in tuple(self._listeners):
            listener.finish()


class Listening:
    """News from now on, until `finish`."""

    def __init__(self, others: set[Listening]) -> None:
        self._others = others
        self._news: deque[News] = deque()
        self._finished = False
        self._wake = asyncio.Event()
        others.add(self)

    def take(self, news: News) -> None:
        self._news.append(news)
        if len(self._news) > _MOST_HELD:
            self._news.clear()
            self.finish()
        self._wake.set()

    def finish(self) -> None:
        self._finished = True
        self._others.discard(self)
        self._wake.set()

    async def news(self, *, heartbeat: float) -> AsyncIterator[News | None]:
        """Each as it comes; None after every `heartbeat` seconds without one."""
        while True:
            while self._news:
                yield self._news.popleft()
            if self._finished:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(heartbeat):
                    await self._wake.wait()
            except TimeoutError:
                yield None
