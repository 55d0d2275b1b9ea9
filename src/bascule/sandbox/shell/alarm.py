"""One timer for many successive deadlines, most of which are cleared before they pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls a function when the deadline passes. Setting or clearing the deadline is cheap.

    A shell runs thousands of short commands, each with a deadline. When a deadline is cleared or
    moves to a later time, the event loop's timer stays. When the timer fires too early, it is set
    again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: float | None = None
        self._callback: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def set(self, due: float, callback: Callable[[], None]) -> None:
        """Set the deadline to `due` (event loop time); replaces the previous deadline."""
        self._due, self._callback = due, callback
        if self._timer is None or due < self._rings_at:
            self._set_timer(due)

    def clear(self, callback: Callable[[], None]) -> None:
        """Clear the deadline, unless another callback has been set since."""
        if self._callback == callback:
            self._due = self._callback = None

    def close(self) -> None:
        self._due = self._callback = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._fire)
        self._rings_at = due

    def _fire(self) -> None:
        self._timer = None
        due, callback = self._due, self._callback
        if due is None or callback is None:
            return
        if self._loop.time() < due:
            self._set_timer(due)
        else:
            self._due = self._callback = None
            callback()
