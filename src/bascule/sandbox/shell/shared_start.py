"""Starts a process once for all callers that need it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class SharedStart:
    """Callers wait for the same start. Cancelling a caller does not interrupt the start."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._start = start
        self.task: asyncio.Task[None] | None = None
        """The start that is under way."""

    async def ensure_started(self, *, is_running: bool) -> None:
        """Start the process unless it runs, or wait for a start that is under way."""
        if not is_running and self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._start())
        if self.task is not None:
            task = self.task
            try:
                await asyncio.shield(task)
            finally:
                if task.done():
                    self.task = None
