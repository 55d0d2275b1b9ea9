"""Stages of a start: reports each one and limits the time of the start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from bascule.core.errors import BasculeError, SandboxStartFailed
from bascule.core.sessions import SessionId

from .session_table import SessionTable

logger = logging.getLogger(__name__)


class Stages:
    """Takes stages from synchronous code, then stores and publishes them in order."""

    def __init__(self, session_id: SessionId, table: SessionTable) -> None:
        self.stage = ""
        self._session_id = session_id
        self._table = table
        self._said: asyncio.Queue[str] = asyncio.Queue()
        self._telling: asyncio.Task[None] | None = None

    def say(self, stage: str) -> None:
        self.stage = stage
        self._said.put_nowait(stage)

    async def told(self) -> None:
        """Wait until all stages so far are published."""
        await self._said.join()

    async def __aenter__(self) -> Self:
        self._telling = asyncio.create_task(self._tell())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._telling is not None
        self._telling.cancel()
        await asyncio.gather(self._telling, return_exceptions=True)

    async def _tell(self) -> None:
        while True:
            stage = await self._said.get()
            try:
                await self._table.set_stage(self._session_id, stage)
            except BasculeError as error:  # the start itself says whether it can go on without
                logger.warning("session %s: %s is not told: %s", self._session_id, stage, error)
            finally:
                self._said.task_done()


@asynccontextmanager
async def within(seconds: float, setting: str) -> AsyncIterator[None]:
    """A time limit whose error names the setting that raises it."""
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
