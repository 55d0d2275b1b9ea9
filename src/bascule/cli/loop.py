"""An event loop in a separate thread, for commands whose main thread waits for input."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines while the main thread waits for input. Leaving cancels all that still run."""

    def __init__(self) -> None:
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name="bascule-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop = self._started.result()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def start(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start `work`. Other threads can wait for the future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @contextmanager
    def hold(self, manager: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
        """Keep `manager` open in the loop. The same task opens and closes it, because task groups
        require this."""
        opened: Future[_T] = Future()
        release = asyncio.Event()

        async def keep() -> None:
            try:
                async with manager as value:
                    opened.set_result(value)
                    await release.wait()
            except BaseException as error:
                if opened.done():
                    raise
                opened.set_exception(error)

        holder = self.start(keep())
        try:
            yield opened.result()
        finally:
            self._loop.call_soon_threadsafe(release.set)
            holder.result()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            loop.call_soon(self._started.set_result, loop)
            loop.run_forever()
