"""Stages of a session's start: reports each stage, and limits its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, SandboxStartFailed
from bascule.core.sessions import SessionId

from .session_table import SessionTable

logger = logging.getLogger(__name__)


class Stages(Closable):
    """Accepts stages from synchronous code, then stores and publishes them in order.

    Closing drops stages that are not published yet; `until_published` waits for them.
    """

    def __init__(self, session_id: SessionId, table: SessionTable) -> None:
        self.stage = ""
        self._session_id = session_id
        self._table = table
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._publishing = asyncio.create_task(self._publish())

    def set(self, stage: str) -> None:
        self.stage = stage
        self._queue.put_nowait(stage)

    async def until_published(self) -> None:
        """Wait until all stages so far are published."""
        await self._queue.join()

    async def aclose(self) -> None:
        self._publishing.cancel()
        await asyncio.gather(self._publishing, return_exceptions=True)

    async def _publish(self) -> None:
        while True:
            stage = await self._queue.get()
            try:
                await self._table.set_stage(self._session_id, stage)
            except BasculeError as error:  # not fatal: if the start needs the store, it fails there
                logger.warning(
                    "session %s: stage %s not stored: %s", self._session_id, stage, error
                )
            finally:
                self._queue.task_done()


@asynccontextmanager
async def within(seconds: float, setting: str) -> AsyncIterator[None]:
    """Limit the time of the block. The error names the `setting` that allows more time."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            yield
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise SandboxStartFailed(
            f"took longer than {seconds:g} seconds (the setting `{setting}`)"
        ) from error
