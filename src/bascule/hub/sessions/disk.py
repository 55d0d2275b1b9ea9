"""Finds sessions that use more disk space than allowed, by measuring them regularly."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Set
from typing import Final

from bascule.core.sessions import SessionId

_MAX_SHARE: Final = 0.01
"""Share of the time that measuring one session may take."""
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


class DiskLimit:
    """Measures a session at every check, but for at most 1 % of the time. So a session with
    millions of files does not slow down the others."""

    def __init__(
        self,
        limit: int | None,
        measure: Callable[[SessionId], Awaitable[int]],
        *,
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`interval`: seconds between two checks. Without a `limit` nothing is measured."""
        self._limit = limit
        self._measure = measure
        self._interval = interval
        self._clock = clock
        self._not_before: dict[SessionId, float] = {}
        """Earliest time of the next measurement of a session."""

    async def excess_reason(self, session_id: SessionId) -> str | None:
        """The reason to end the session; None if it is within its limit or was not measured now."""
        started = self._clock()
        if self._limit is None or started < self._not_before.get(session_id, started):
            return None
        used = await self._measure(session_id)
        now = self._clock()
        self._not_before[session_id] = now + (now - started) / _MAX_SHARE - self._interval
        if used <= self._limit:
            return None
        return (
            f"it uses {format_bytes(used)} on the disk, but a session of this hub may use at most "
            f"{format_bytes(self._limit)} (the setting `max_session_disk`). After you resume it, "
            "you have a minute to remove files"
        )

    def keep(self, known: Set[SessionId]) -> None:
        """Forget all sessions that are not in `known`."""
        self._not_before = {key: at for key, at in self._not_before.items() if key in known}


def format_bytes(amount: float) -> str:
    """The amount for people, such as `1.5 GiB`."""
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{amount:.4g} {unit}"
