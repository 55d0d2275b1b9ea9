"""One command of a shell, from the line that starts it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from .alarm import Alarm
from .marks import CommandEnd
from .output import CommandOutput
from .stages import (
    ABANDONED,
    COMMAND_TRANSITIONS,
    OUTPUT_TRANSITIONS,
    OVER,
    CommandStage,
    Ending,
    Interruption,
    OutputStage,
    refused,
)

_MAX_TIMER_DELAY = 1.0
"""Seconds. A timer that fires later than this after its time shows that this process did not run
meanwhile: its session was paused, or the machine was too busy."""

Reason = Literal["end", "soft", "hard", "lost"]
"""Why a wait is over: the command ended, printed nothing for a while, reached its timeout, or bash
died before running it."""


class Execution:
    """The state of one command: its output, exit code and stage.

    Every command creates an `Execution`, so rarely needed fields are class attributes, or are
    created later.
    """

    text = ""
    """The text of the command, for display."""
    answers = 0
    log_start = 0
    background = ""
    left_by_previous = ""
    """Output and exit code of the previous command, if no caller has received them."""
    path = ""
    status = -1
    background_pid = -1
    stage = CommandStage.WAITING
    output_stage = OutputStage.EXPECTED
    interruption = Interruption.NONE
    ending = Ending.REPORTED
    end_report: CommandEnd | None = None
    """Bash's report of the end; the last output may not have been read yet."""
    is_marked = False
    """Marks on the terminal show where the output starts and ends."""
    is_retry = False
    was_asked = False
    """We sent a query for the end, because bash seemed to be at its prompt."""
    new_shell = False
    status_unknown = False
    waiter: asyncio.Future[Reason] | None = None
    when_begun: Callable[[], None] | None = None

    _soft: float | None = None
    _silent_at = 0.0
    """Loop time at which the soft timeout expires, unless there was output since it was set."""
    _hard_deadline: float | None = None

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
        self._reached: dict[CommandStage, asyncio.Future[None]] = {}
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def is_over(self) -> bool:
        return self.stage is OVER

    @property
    def was_signalled(self) -> bool:
        return bool(self.interruption)

    @property
    def is_abandoned(self) -> bool:
        return self.interruption is ABANDONED

    async def until(self, stage: CommandStage) -> None:
        """Wait until the command has reached `stage`; any number of callers may wait."""
        if self.stage < stage:
            await asyncio.shield(self._reached.setdefault(stage, self._loop.create_future()))

    def enter(self, stage: CommandStage) -> None:
        if stage not in COMMAND_TRANSITIONS[self.stage]:
            raise refused(self.stage, stage, COMMAND_TRANSITIONS)
        self.stage = stage
        if self._reached:
            for reached in [each for each in self._reached if each <= stage]:
                self._reached.pop(reached).set_result(None)

    def enter_output(self, stage: OutputStage) -> None:
        if stage not in OUTPUT_TRANSITIONS[self.output_stage]:
            raise refused(self.output_stage, stage, OUTPUT_TRANSITIONS)
        self.output_stage = stage

    def begin(self) -> None:
        """Record that bash runs the command."""
        self.enter(CommandStage.RUNNING)
        if self.when_begun is not None:
            self.when_begun()

    def interrupt(self, how: Interruption) -> None:
        self.interruption = max(self.interruption, how)

    def age(self) -> float:
        return self._loop.time() - self._began

    def add(self, data: bytes) -> None:
        self._last_output = self._loop.time()
        if self.interruption is not ABANDONED:
            self.output.add(data)

    def later(self, delay: float, callback: Callable[[], object]) -> None:
        """Call `callback` after `delay` seconds, unless the command is over by then."""
        self._timers.append(self._loop.call_later(delay, callback))

    async def wait(self, *, soft: float | None, hard: float | None) -> Reason:
        """Wait until the command ends, is silent for `soft` seconds, or `hard` seconds pass."""
        if self.stage is OVER:
            return "end"
        waiter: asyncio.Future[Reason] = self._loop.create_future()
        self.waiter = waiter
        now = self._last_output = self._loop.time()
        self._soft = soft
        self._hard_deadline = None if hard is None else now + hard
        self._set_alarm()
        try:
            return await waiter
        finally:
            self.waiter = None
            self._alarm.clear(self._look)

    def _set_alarm(self) -> None:
        """Set the next deadline. New output does not move the deadline; `_look` takes output into
        account."""
        soft, hard = self._soft, self._hard_deadline
        if soft is not None and (hard is None or self._last_output + soft < hard):
            self._silent_at = self._last_output + soft
            self._alarm.set(self._silent_at, self._look)
        elif hard is not None:
            self._alarm.set(hard, self._look)

    def _look(self) -> None:
        if self.waiter is None or self.waiter.done():
            return
        now = self._loop.time()
        if self._hard_deadline is not None and now >= self._hard_deadline:
            self.waiter.set_result("hard")
        elif self._soft is not None and now >= self._last_output + self._soft:
            if now > self._silent_at + _MAX_TIMER_DELAY:
                self._last_output = now  # the command may have been paused too: wait once more
                self._set_alarm()
            else:
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
        """Handle that bash died before it ran the command.

        Returns True if a caller waits; the caller then retries. If nobody waits, returns False and
        does not end the command.
        """
        if self.waiter is None or self.waiter.done():
            return False
        self.close()
        self.waiter.set_result("lost")
        return True

    def fail(self, error: Exception) -> None:
        self.close()
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(error)

    def close(self) -> None:
        self.enter(OVER)
        for timer in self._timers:
            timer.cancel()
