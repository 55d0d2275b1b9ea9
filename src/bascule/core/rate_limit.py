"""Limits the rate at which items are processed."""

from __future__ import annotations

import asyncio


class RateLimit:
    """Allows `burst` items at once, then `per_second`; further callers wait."""

    def __init__(self, *, burst: int, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._available = float(burst)
        self._updated = 0.0

    async def wait(self) -> None:
        """Wait until the next item may be processed."""
        now = asyncio.get_running_loop().time()
        gained = (now - self._updated) * self._per_second
        self._updated, self._available = now, min(self._burst, self._available + gained) - 1
        if self._available < 0:
            await asyncio.sleep(-self._available / self._per_second)
