"""Finishes database work before a cancellation takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def finish_before_cancel(work: Coroutine[Any, Any, _T] | asyncio.Task[_T]) -> _T:
    """Wait for `work`. If cancelled meanwhile, finish it first, then raise `CancelledError`.

    If `work` fails after the cancellation, its error becomes the cause of `CancelledError`;
    otherwise the error would be lost.
    """
    task = work if isinstance(work, asyncio.Task) else asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    raise cancelled from (None if task.cancelled() else task.exception())
