"""Progress notifications while a command runs."""

from __future__ import annotations

import asyncio
import codecs
import logging
from types import TracebackType
from typing import Final, Self

from mcp.server.session import ServerSession

from bascule.adapters.terminal_text import readable
from bascule.core.contracts import OutputProgress

logger = logging.getLogger(__name__)

_SHOWN: Final = 2_000
"""Characters of new output in one notification; of more, the end."""


class ProgressReporter:
    """Sends a client the output of a running command, for the duration of an `async with` block.

    A client that reads slowly gets fewer notifications, not late ones: what came meanwhile is put
    into one. `progress` counts the bytes that were printed.
    """

    def __init__(self, session: ServerSession, token: str | int, request_id: str) -> None:
        self._session = session
        self._token = token
        self._request_id = request_id
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._count = 0
        self._text = ""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, progress: OutputProgress) -> None:
        self._count += len(progress.data)
        self._text = (self._text + self._decoder.decode(progress.data))[-_SHOWN:]
        self._news.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tell())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        (ended,), _ = await asyncio.wait([self._task])
        if not ended.cancelled() and (error := ended.exception()) is not None:
            logger.debug("a client could not be told of progress", exc_info=error)

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            text, self._text = self._text, ""
            await self._session.send_progress_notification(
                self._token,
                float(self._count),
                message=readable(text),
                related_request_id=self._request_id,
            )
