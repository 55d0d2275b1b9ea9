"""The timeline of a session or window: a bounded, numbered list of events, with subscribers."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_ENTRIES: Final = 5_000
MAX_BYTES: Final = 32 << 20

OnEntry = Callable[["TimelineEntry"], None]


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry: `action`, `observation`, `failed`, or a chunk of `output`."""

    number: int
    """Counts up from 1. Chunks of output have number 0: subscribers get them as they arrive, and
    the timeline does not keep them, since the observation holds the whole output."""
    kind: str
    time: float
    """Unix time."""
    data: Mapping[str, Any]
    size: int = 0
    """Approximate size in bytes."""


class Timeline:
    """Holds the newest entries, up to `max_entries` and `max_bytes`. Older entries are dropped.

    A reader that stores `epoch` and the number of its last entry can continue from there. Entry
    numbers are only comparable within one epoch. To continue a timeline that was saved to disk,
    pass its `epoch` and its `last` number.
    """

    def __init__(
        self,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        epoch: str = "",
        last: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.epoch = epoch or secrets.token_hex(8)
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: deque[TimelineEntry] = deque()
        self._bytes = 0
        self._last = last
        self._listeners: list[OnEntry] = []
        self._output_listeners: list[OnEntry] = []
        """The listeners that want output too, a subset of `_listeners`."""

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._last

    @property
    def is_watched(self) -> bool:
        """Whether a subscriber wants output as it arrives."""
        return bool(self._output_listeners)

    def note(
        self, kind: str, data: Mapping[str, Any], *, size: int = 0, time: float | None = None
    ) -> TimelineEntry:
        """Add an entry and pass it to subscribers. `time` is the Unix time of the event; None:
        the current time."""
        self._last += 1
        entry = TimelineEntry(self._last, kind, self._clock() if time is None else time, data, size)
        self._entries.append(entry)
        self._bytes += size
        while len(self._entries) > self._max_entries or (
            self._bytes > self._max_bytes and len(self._entries) > 1
        ):
            self._bytes -= self._entries.popleft().size
        _notify(self._listeners, entry)
        return entry

    def show(self, kind: str, data: Mapping[str, Any], *, size: int = 0) -> None:
        """Pass an entry to the subscribers that want output, without keeping it."""
        if self._output_listeners:
            _notify(self._output_listeners, TimelineEntry(0, kind, self._clock(), data, size))

    def after(self, number: int, epoch: str = "") -> list[TimelineEntry]:
        """The entries after `number`; all entries if `epoch` is not the epoch of this timeline."""
        if epoch != self.epoch:
            number = 0
        first = self._last - len(self._entries) + 1
        skipped = max(0, number - first + 1)
        return list(self._entries)[skipped:]

    def subscribe(self, listener: OnEntry, *, output: bool = True) -> Callable[[], None]:
        """Call `listener` with each new entry, until the returned function is called.

        With `output`, `listener` also gets the chunks of output passed to `show`.
        """
        lists = [self._listeners, self._output_listeners] if output else [self._listeners]
        for listeners in lists:
            listeners.append(listener)

        def unsubscribe() -> None:
            for listeners in lists:
                if listener in listeners:
                    listeners.remove(listener)

        return unsubscribe


def _notify(listeners: list[OnEntry], entry: TimelineEntry) -> None:
    for listener in tuple(listeners):  # a copy: a listener may unsubscribe while it is called
        listener(entry)
