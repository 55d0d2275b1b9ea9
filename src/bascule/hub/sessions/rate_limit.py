"""Limits the rate at which items are processed."""

from __future__ import annotations

import asyncio


class RateLimit:
    """Allows `burst` items at once, then `per_second`; further callers wait."""

    def __init__(self, *, burst: int, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._room = float(burst)
        self._since = 0.0

    async def turn(self) -> None:
        """Wait until the next item may be processed."""
        now = asyncio.get_running_loop().time()
        gained = (now - self._since) * self._per_second
        self._since, self._room = now, min(self._burst, self._room + gained) - 1
        if self._room < 0:
            await asyncio.sleep(-self._room / self._per_second)
