"""A progress notification that a script holds open."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sized
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bascule.bridge import calls
from bascule.core.errors import BridgeCancelled, BridgeClosed

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from bascule.core.contracts import Bridge

logger = logging.getLogger("vscode_bridge")
T = TypeVar("T")


class _Bar:
    """The request that keeps the notification open, for the blocking and the async class."""

    def __init__(
        self, bridge: Bridge, title: str, total: float | None, *, cancellable: bool
    ) -> None:
        self._bridge = bridge
        self._call = calls.progress(title, cancellable=cancellable)
        self._total = total
        self._answer: Future[Any] | None = None
        self._is_told = False

    @property
    def is_cancelled(self) -> bool:
        """Whether the user has clicked Cancel."""
        return isinstance(self._failure(), BridgeCancelled)

    def _begin(self) -> Future[Any]:
        self._answer = self._bridge.begin(self._call.type, self._call.params)
        return self._answer

    def _failure(self) -> BaseException | None:
        answer = self._answer
        if answer is None or not answer.done() or answer.cancelled():
            return None
        return answer.exception()

    def _value(self, message: str, advance: float) -> dict[str, Any]:
        value: dict[str, Any] = {"message": message}
        if self._total:
            value["increment"] = advance * 100 / self._total
        return value

    def _ensure_wanted(self) -> None:
        failure = self._failure()
        if isinstance(failure, BridgeClosed):
            # The work continues: a lost notification is no reason to stop it.
            if not self._is_told:
                logger.warning("the progress of %r is no longer shown: %s", self._title, failure)
            self._is_told = True
        elif failure is not None:
            raise failure

    @property
    def _title(self) -> str:
        return str(self._call.params["title"])

    def _add(self, value: dict[str, Any]) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.add(value)  # type: ignore[attr-defined]  # bridges return `PendingReply`


class Progress(_Bar):
    """A notification during a `with` block. `update` raises `BridgeCancelled` after Cancel."""

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._add({"done": True})

    def update(self, message: str = "", *, advance: float = 0) -> None:
        """Report progress: `advance` counts towards `total`."""
        self._ensure_wanted()
        self._add(self._value(message, advance))

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield each of `items` and count it. Raises `BridgeCancelled` after Cancel."""
        if self._total is None and isinstance(items, Sized):
            self._total = len(items)
        for item in items:
            self._ensure_wanted()
            yield item
            self.update(advance=1)


class AsyncProgress(_Bar):
    """`Progress` for `async with`. Cancel also interrupts the block, which then raises
    `BridgeCancelled`, as `asyncio.timeout` raises `TimeoutError`."""

    _task: asyncio.Task[Any] | None = None
    _has_interrupted = False

    async def __aenter__(self) -> Self:
        import asyncio

        self._task = asyncio.current_task()
        answer = await asyncio.to_thread(self._begin)
        loop = asyncio.get_running_loop()
        answer.add_done_callback(lambda _: _call_soon(loop, self._interrupt))
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        import asyncio

        task, self._task = self._task, None
        if self._has_interrupted:
            assert task is not None
            if task.uncancel() == 0 and exc_type is asyncio.CancelledError:
                raise BridgeCancelled(f"The user cancelled {self._title!r}") from exc
        await asyncio.to_thread(self._add, {"done": True})

    async def update(self, message: str = "", *, advance: float = 0) -> None:
        import asyncio

        self._ensure_wanted()
        await asyncio.to_thread(self._add, self._value(message, advance))

    async def track(self, items: Iterable[T]) -> AsyncIterator[T]:
        if self._total is None and isinstance(items, Sized):
            self._total = len(items)
        for item in items:
            self._ensure_wanted()
            yield item
            await self.update(advance=1)

    def _interrupt(self) -> None:
        if self.is_cancelled and self._task is not None:
            self._has_interrupted = True
            self._task.cancel()


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
