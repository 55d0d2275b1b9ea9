"""Measures how late the hub's event loop runs its timers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

_INTERVAL: Final = 1.0


class EventLoopLag:
    """Sets a timer each second, and reports by how many seconds it was late.

    A blocking call or an overloaded processor delays every request by this time.
    """

    def __init__(self, report: Callable[[float], None], *, interval: float = _INTERVAL) -> None:
        self._report = report
        self._interval = interval
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        # Not `loop.time()`: uvloop updates it once per iteration, before the callbacks that block.
        self._due = time.monotonic() + self._interval
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._measure)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self) -> None:
        self._report(max(0.0, time.monotonic() - self._due))
        self.start()
