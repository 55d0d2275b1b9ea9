"""How fast something that could be endless is taken."""

from __future__ import annotations

import asyncio


class RateLimit:
    """Lets `burst` pass at once, and after that `per_second`; whoever comes sooner waits."""

    def __init__(self, *, burst: int, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._room = float(burst)
        self._since = 0.0

    async def turn(self) -> None:
        now = asyncio.get_running_loop().time()
        gained = (now - self._since) * self._per_second
        self._since, self._room = now, min(self._burst, self._room + gained) - 1
        if self._room < 0:
            await asyncio.sleep(-self._room / self._per_second)
