"""One timer for many successive deadlines, most of which are cleared before they pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls back when the deadline passes; setting a new deadline or clearing it is cheap.

    Commands come and go by the thousand, each with a deadline. So the loop's timer is left alone
    when a deadline moves to later or away: it rings, sees that, and is set again if need be.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: float | None = None
        self._callback: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def set(self, due: float, callback: Callable[[], None]) -> None:
        """At `due`, by the loop's clock, and in place of the deadline set before."""
        self._due, self._callback = due, callback
        if self._timer is None or due < self._rings_at:
            self._wind(due)

    def clear(self, callback: Callable[[], None]) -> None:
        """Forget the deadline, unless another one was set since."""
        if self._callback == callback:
            self._due = self._callback = None

    def close(self) -> None:
        self._due = self._callback = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._ring)
        self._rings_at = due

    def _ring(self) -> None:
        self._timer = None
        due, callback = self._due, self._callback
        if due is None or callback is None:
            return
        if self._loop.time() < due:
            self._wind(due)
        else:
            self._due = self._callback = None
            callback()
