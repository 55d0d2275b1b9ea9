"""Progress notifications while a command runs."""

from __future__ import annotations

import asyncio
import codecs
import logging
from typing import Final

from mcp.server.session import ServerSession

from bascule.adapters.terminal_text import readable
from bascule.core.contracts import Closable, OutputProgress

logger = logging.getLogger(__name__)

_MAX_CHARACTERS: Final = 2_000
"""Maximum characters of new output in one notification. Of longer output, the end is sent."""


class ProgressReporter(Closable):
    """Sends a client the output of a running command, until the reporter is closed.

    A client that reads slowly gets fewer notifications, but no late notifications: output that
    arrives meanwhile is combined. `progress` counts the bytes that were printed.
    """

    def __init__(self, session: ServerSession, token: str | int, request_id: str) -> None:
        self._session = session
        self._token = token
        self._request_id = request_id
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._count = 0
        self._text = ""
        self._wake = asyncio.Event()
        self._sending = asyncio.create_task(self._send())

    def add(self, progress: OutputProgress) -> None:
        self._count += len(progress.data)
        self._text = (self._text + self._decoder.decode(progress.data))[-_MAX_CHARACTERS:]
        self._wake.set()

    async def aclose(self) -> None:
        self._sending.cancel()
        (ended,), _ = await asyncio.wait([self._sending])
        if not ended.cancelled() and (error := ended.exception()) is not None:
            logger.debug("progress could not be sent to a client", exc_info=error)

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            text, self._text = self._text, ""
            await self._session.send_progress_notification(
                self._token,
                float(self._count),
                message=readable(text),
                related_request_id=self._request_id,
            )
