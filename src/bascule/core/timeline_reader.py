"""Lets a subscriber of a timeline read at its own speed, with bounded memory."""

from __future__ import annotations

from collections import deque
from typing import Final

from .broadcaster import Inbox
from .timeline import Timeline, TimelineEntry

_MAX_PENDING_ENTRIES: Final = 20_000
"""Maximum number of pending entries of a reader. A reader with more is disconnected."""
_MAX_PENDING_OUTPUT: Final = 1 << 20
"""Maximum bytes of pending output of a reader. Further output is dropped until the reader reads
again."""


class TimelineReader(Inbox[list[TimelineEntry]]):
    """Reads past and new entries of a timeline, in lists. Each list has the entries since the
    previous list.

    A reader that is too slow misses output first. If it is still too slow, `items` ends, and the
    caller opens a new reader `after` the last number it received. Without `output` the reader gets
    numbered entries only, no chunks of output.
    """

    def __init__(
        self, timeline: Timeline, *, after: int = 0, epoch: str = "", output: bool = True
    ) -> None:
        super().__init__()
        self._pending: deque[TimelineEntry] = deque(timeline.after(after, epoch))
        self._pending_output = 0
        self._unsubscribe = timeline.subscribe(self._add, output=output)

    def finish(self) -> None:
        self._unsubscribe()
        super().finish()

    def _is_empty(self) -> bool:
        return not self._pending

    def _take(self) -> list[TimelineEntry]:
        batch = list(self._pending)
        self._pending.clear()
        self._pending_output = 0
        return batch

    def _add(self, entry: TimelineEntry) -> None:
        if entry.number == 0:  # a chunk of output
            if self._pending_output + entry.size > _MAX_PENDING_OUTPUT:
                return
            self._pending_output += entry.size
        self._pending.append(entry)
        if len(self._pending) > _MAX_PENDING_ENTRIES:
            self._pending.clear()
            self.finish()
        self.notify()
