"""A bounded, numbered list of what happened in one session or window, with subscribers."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_ENTRIES: Final = 5_000
MOST_BYTES: Final = 32 << 20

OnEntry = Callable[["TimelineEntry"], None]


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry: `action`, `observation`, `failed`, or a chunk of `output`."""

    number: int
    """Counts up from 1. 0 for output, which is told while it comes and then held by nobody: the
    observation has all of it."""
    kind: str
    time: float
    """Unix time."""
    data: Mapping[str, Any]
    size: int = 0
    """Bytes it takes, about."""


class Timeline:
    """Holds the newest entries. Above either limit the oldest are dropped.

    Who remembers `epoch` and the number of the last entry it saw goes on from there. Another epoch
    is another timeline, whose numbers mean nothing to the first. One that goes on with what was
    written down before is given that `epoch`, and the number that was `last` in it.
    """

    def __init__(
        self,
        *,
        most: int = MOST_ENTRIES,
        most_bytes: int = MOST_BYTES,
        epoch: str = "",
        last: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.epoch = epoch or secrets.token_hex(8)
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        self._entries: deque[TimelineEntry] = deque()
        self._bytes = 0
        self._last = last
        self._listeners: list[OnEntry] = []
        self._watchers: list[OnEntry] = []
        """Those of them that want output as well."""

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._last

    @property
    def is_watched(self) -> bool:
        """Whether a subscriber wants output as it arrives."""
        return bool(self._watchers)

    def note(
        self, kind: str, data: Mapping[str, Any], *, size: int = 0, time: float | None = None
    ) -> TimelineEntry:
        """Add an entry and pass it to subscribers. `time`: when it happened, if not now."""
        self._last += 1
        entry = TimelineEntry(self._last, kind, self._clock() if time is None else time, data, size)
        self._entries.append(entry)
        self._bytes += size
        while len(self._entries) > self._most or (
            self._bytes > self._most_bytes and len(self._entries) > 1
        ):
            self._bytes -= self._entries.popleft().size
        _tell(self._listeners, entry)
        return entry

    def show(self, kind: str, data: Mapping[str, Any], *, size: int = 0) -> None:
        """Pass an entry to the present subscribers without keeping it."""
        if self._watchers:
            _tell(self._watchers, TimelineEntry(0, kind, self._clock(), data, size))

    def after(self, number: int, epoch: str = "") -> list[TimelineEntry]:
        """Entries after that number; all entries for a reader from another epoch."""
        if epoch != self.epoch:
            number = 0
        first = self._last - len(self._entries) + 1
        skipped = max(0, number - first + 1)
        return list(self._entries)[skipped:]

    def subscribe(self, listener: OnEntry, *, output: bool = True) -> Callable[[], None]:
        """Call `listener` with each new entry, until the returned function is called."""
        lists = [self._listeners, self._watchers] if output else [self._listeners]
        for each in lists:
            each.append(listener)

        def unsubscribe() -> None:
            for each in lists:
                if listener in each:
                    each.remove(listener)

        return unsubscribe


def _tell(listeners: list[OnEntry], entry: TimelineEntry) -> None:
    for listener in tuple(listeners):
        listener(entry)
