"""One command of a shell, from the line that starts it to the mark that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from .output import Output

Reason = Literal["end", "soft", "hard", "lost"]
"""Why a wait is over: the command ended, printed nothing for a while, is out of time, or bash died
before it ran it."""


class Execution:
    """One command, from its line to its end. Answers take the output as it comes."""

    def __init__(
        self, command: str, *, nonce: bytes, output: Output, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.command = command
        self.nonce = nonce
        self.output = output
        self.told = asyncio.Event()
        """Set once bash was given the command, and in any case when it is over."""
        self.begun = asyncio.Event()
        """Set once bash runs the command, and in any case when it is over."""
        self.started = False
        """Bash said that it runs the command."""
        self.when_begun: Callable[[], None] | None = None
        self.answers = 0
        self.log_start = 0
        self.background = ""
        self.left_by_previous = ""
        self.path = ""
        self.status = -1
        self.background_pid = -1
        self.is_over = False
        self.is_retry = False
        self.abandoned = False
        self.was_signalled = False
        self.new_shell = False
        self.shell_ended = False
        self.replaced = False
        self.status_unknown = False
        self.waiter: asyncio.Future[Reason] | None = None
        self._loop = loop
        self._began = loop.time()
        self._last_output = self._began
        self._ended: asyncio.Future[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done once the command is over, however it ended."""
        if self._ended is None:
            self._ended = self._loop.create_future()
            if self.is_over:
                self._ended.set_result(None)
        return self._ended

    def begin(self) -> None:
        self.started = True
        self.begun.set()
        if self.when_begun is not None:
            self.when_begun()

    def age(self) -> float:
        return self._loop.time() - self._began

    def add(self, data: bytes) -> None:
        self._last_output = self._loop.time()
        if not self.abandoned:
            self.output.add(data)

    def later(self, delay: float, callback: Callable[[], object]) -> None:
        """Call back unless the command is over by then."""
        self._timers.append(self._loop.call_later(delay, callback))

    async def wait(self, *, soft: float | None, hard: float | None) -> Reason:
        """Until the command ends, prints nothing for `soft` seconds, or `hard` have passed."""
        if self.is_over:
            return "end"
        waiter: asyncio.Future[Reason] = self._loop.create_future()
        self.waiter = waiter
        timers: list[asyncio.TimerHandle] = []
        begin = self._loop.time()

        def expire(reason: Reason) -> None:
            if not waiter.done():
                waiter.set_result(reason)

        def look() -> None:
            """The timer is not moved for every piece of output: it looks when it was last."""
            quiet_since = max(begin, self._last_output)
            if soft is not None and self._loop.time() >= quiet_since + soft:
                expire("soft")
            elif soft is not None:
                timers.append(self._loop.call_at(quiet_since + soft, look))

        if soft is not None:
            timers.append(self._loop.call_later(soft, look))
        if hard is not None:
            timers.append(self._loop.call_later(hard, expire, "hard"))
        try:
            return await waiter
        finally:
            self.waiter = None
            for timer in timers:
                timer.cancel()

    def finish(self, status: int, background_pid: int) -> None:
        self.status = -1 if self.status_unknown else status
        self.background_pid = background_pid
        self.close()
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result("end")

    def lose(self) -> bool:
        """Bash died before it ran this. True if the one who waits for it will try again."""
        self.close()
        if self.waiter is None or self.waiter.done():
            return False
        self.waiter.set_result("lost")
        return True

    def fail(self, error: Exception) -> None:
        self.close()
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(error)

    def close(self) -> None:
        self.is_over = True
        self.told.set()
        self.begun.set()
        for timer in self._timers:
            timer.cancel()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
