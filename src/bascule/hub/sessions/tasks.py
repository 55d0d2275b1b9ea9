"""Background tasks by key, which continue when their caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Tasks:
    """Owns at most one task per key. Closing cancels all tasks and waits for them."""

    def __init__(self) -> None:
        self._tasks: dict[Any, asyncio.Task[Any]] = {}
        self._is_closed = False

    def __contains__(self, key: object) -> bool:
        task = self._tasks.get(key)
        return task is not None and not task.done()

    def is_current(self, key: object) -> bool:
        """Whether the calling code runs in the task of this key."""
        return self._tasks.get(key) is asyncio.current_task()

    def start(self, key: object, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        assert key not in self, f"{key} is busy"
        if self._is_closed:
            work.close()
            raise asyncio.CancelledError
        task = asyncio.create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._on_task_ended(key, task))
        return task

    async def cancel(self, key: object) -> None:
        """Cancel the task and wait until it has ended."""
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def end(self, key: object) -> None:
        """Cancel the task without waiting for its end."""
        if (task := self._tasks.get(key)) is not None:
            task.cancel()

    async def until_finished(self, key: object) -> None:
        """Wait until the task has ended, without cancelling it."""
        task = self._tasks.get(key)
        if task is not None:
            await asyncio.wait({task})

    async def aclose(self) -> None:
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _on_task_ended(self, key: object, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("%s ended with %r", key, error)
