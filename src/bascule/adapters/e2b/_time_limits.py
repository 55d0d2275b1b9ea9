"""Ends processes whose time limit is over, also when their client has disconnected."""

from __future__ import annotations

import asyncio
import logging

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError
from bascule.core.programs import Program
from bascule.hub.sessions.tasks import Tasks

logger = logging.getLogger(__name__)


class TimeLimits(Closable):
    """One timer for each process with a time limit. Closing cancels timers and ends no process."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ended: set[str] = set()
        self._tasks = Tasks()

    async def aclose(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await self._tasks.aclose()

    def start(self, program: Program, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[program.id] = loop.call_later(seconds, self._on_time, program)

    def finish(self, program: Program) -> bool:
        """The process has ended. Returns whether its time limit ended it."""
        timer = self._timers.pop(program.id, None)
        if timer is not None:
            timer.cancel()
        was_late = program.id in self._ended
        self._ended.discard(program.id)
        return was_late

    def _on_time(self, program: Program) -> None:
        self._timers.pop(program.id, None)
        self._ended.add(program.id)
        self._tasks.start(program.id, self._end(program))

    async def _end(self, program: Program) -> None:
        try:
            await program.kill()
        except BasculeError as error:
            logger.info("a process could not be ended at its time limit: %s", error.message)
        finally:
            # If the client is still connected, `finish` has read this long before.
            asyncio.get_running_loop().call_later(60, self._ended.discard, program.id)
