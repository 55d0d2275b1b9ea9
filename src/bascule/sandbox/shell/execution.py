"""One command of a shell, from the line that starts it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from .alarm import Alarm
from .marks import CommandEnd
from .output import CommandOutput

Reason = Literal["end", "soft", "hard", "lost"]
"""Why a wait is over: the command ended, printed nothing for a while, is out of time, or bash died
before it ran it."""

Stage = Literal["told", "begun", "over"]
"""told: bash was given the command. begun: bash runs it. Being over counts as both."""


class Execution:
    """The state of one command: its output, exit code and stage.

    Made for every command, so what most of them do not need is a class attribute or made later.
    """

    text = ""
    """The command itself, for people to see."""
    answers = 0
    log_start = 0
    background = ""
    left_by_previous = ""
    """What the command before printed and how it ended, when nobody had been told."""
    path = ""
    status = -1
    background_pid = -1
    is_told = False
    is_started = False
    """What is printed from here on is its output."""
    is_marked = False
    """Marks on the terminal say where its output starts and ends."""
    is_printed = False
    """All it printed has been read, its end mark too."""
    end: CommandEnd | None = None
    """What bash told of its end; its last output may still be on the way."""
    is_begun = False
    """Bash is known to run it; looked up only when it matters."""
    is_over = False
    is_retry = False
    abandoned = False
    """Nobody waits for it any more; it is being ended."""
    was_signalled = False
    was_asked = False
    """Bash was asked for the end, since it seemed to be at its prompt."""
    new_shell = False
    shell_ended = False
    replaced = False
    status_unknown = False
    waiter: asyncio.Future[Reason] | None = None
    when_begun: Callable[[], None] | None = None

    _soft: float | None = None
    _out_of_time: float | None = None

    def __init__(
        self,
        *,
        nonce: bytes,
        output: CommandOutput,
        loop: asyncio.AbstractEventLoop,
        alarm: Alarm,
        age: float = 0.0,
    ) -> None:
        self.nonce = nonce
        self.output = output
        self._loop = loop
        self._alarm = alarm
        self._last_output = loop.time()
        self._began = self._last_output - age
        self._reached: dict[Stage, asyncio.Future[None]] = {}
        self._timers: list[asyncio.TimerHandle] = []

    async def until(self, stage: Stage) -> None:
        """Wait until the command is that far; any number may wait."""
        done = {"told": self.is_told, "begun": self.is_begun, "over": self.is_over}[stage]
        if not (done or self.is_over):
            await asyncio.shield(self._reached.setdefault(stage, self._loop.create_future()))

    def tell(self) -> None:
        self.is_told = True
        if self._reached:
            self._announce("told")

    def begin(self) -> None:
        self.is_begun = True
        self._announce("begun")
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
        now = self._last_output = self._loop.time()
        self._soft = soft
        self._out_of_time = None if hard is None else now + hard
        self._set_alarm()
        try:
            return await waiter
        finally:
            self.waiter = None
            self._alarm.clear(self._look)

    def _set_alarm(self) -> None:
        """Not moved for every piece of output: when it rings, we see when the last one was."""
        soft, hard = self._soft, self._out_of_time
        if soft is not None and (hard is None or self._last_output + soft < hard):
            self._alarm.set(self._last_output + soft, self._look)
        elif hard is not None:
            self._alarm.set(hard, self._look)

    def _look(self) -> None:
        if self.waiter is None or self.waiter.done():
            return
        now = self._loop.time()
        if self._out_of_time is not None and now >= self._out_of_time:
            self.waiter.set_result("hard")
        elif self._soft is not None and now >= self._last_output + self._soft:
            self.waiter.set_result("soft")
        else:
            self._set_alarm()

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
        if self._timers or self._reached:
            for timer in self._timers:
                timer.cancel()
            for stage in tuple(self._reached):
                self._announce(stage)

    def _announce(self, stage: Stage) -> None:
        reached = self._reached.pop(stage, None)
        if reached is not None and not reached.done():
            reached.set_result(None)
