"""Keeps the latest answers, for requests that a client repeats with the same id."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Final

from starlette.responses import Response

from bascule.core.contracts import Closable
from bascule.core.errors import HubUnreachable

_MAX_KEPT: Final = 32
_MAX_KEPT_BYTES: Final = 1 << 20


class RecentAnswers(Closable):
    """Answers by request id. A request is executed once, also if it is repeated while it runs.

    Cancelling `get` cancels the request too: its caller has lost the access. Closing cancels the
    requests that run.
    """

    def __init__(self) -> None:
        self._answers: dict[str, asyncio.Task[Response]] = {}

    async def get(
        self, request_id: str, answer: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        key = request_id or secrets.token_hex(16)
        running = self._answers.get(key)
        if running is None:
            running = self._answers[key] = asyncio.create_task(answer())
            self._drop_old()
        try:
            # Not the task itself: its cancellation must be told from that of this call.
            await asyncio.wait({running})
        except asyncio.CancelledError:
            self._answers.pop(key, None)
            running.cancel()
            raise
        if running.cancelled():
            raise HubUnreachable("The request was ended while it ran", sent=True)
        is_kept = request_id and running.exception() is None
        if not is_kept or len(running.result().body) > _MAX_KEPT_BYTES:
            self._answers.pop(key, None)
        return running.result()

    async def aclose(self) -> None:
        for each in self._answers.values():
            each.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)
        self._answers.clear()

    def _drop_old(self) -> None:
        """Forget the oldest answers; requests that run stay."""
        complete = [each for each, answer in self._answers.items() if answer.done()]
        for each in complete[: max(len(complete) - _MAX_KEPT, 0)]:
            del self._answers[each]
