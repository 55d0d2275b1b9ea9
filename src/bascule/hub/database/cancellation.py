"""Work that is finished before a cancellation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def finish_before_cancel(work: Coroutine[Any, Any, _T]) -> _T:
    """Wait for `work`, also when cancelled meanwhile; that is raised once the work has ended.

    An error of the work is then its cause: nobody is left whom it could be told otherwise.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    raise cancelled from (None if task.cancelled() else task.exception())
