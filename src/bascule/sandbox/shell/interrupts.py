"""Ends commands early: control keys, and signals that escalate from SIGINT to SIGKILL."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from .bash import BashProcess
from .execution import Execution
from .idle import EndQuery
from .stages import CommandStage, Interruption

KEY = re.compile(r"C-[A-Za-z\\\]^_@\[]")
"""A control key as agents write it, for example `C-c`."""

_STEP_INTERVAL = 1.0
"""Seconds between the steps that end an abandoned command. Also the longest wait for a command to
start; after that it counts as running."""
_RETRY_DELAYS = (0.02, 0.02, 0.05, 0.1, 0.1, 0.2, 0.5, 0.5, 0.5)
"""Seconds between the checks whether a key was lost and must be pressed again."""
_IDLE = 0.05
"""Seconds after a key until we check whether bash is back at its prompt."""
_POLL_INTERVAL = 0.002
"""Polling interval in seconds to detect that bash runs the command, before a signal is sent."""


class Interrupts:
    """Presses keys and sends signals once bash runs the command, never while it reads the line."""

    def __init__(self, bash: Callable[[], BashProcess | None], end_query: EndQuery) -> None:
        self._bash = bash
        self._end_query = end_query

    async def press(self, execution: Execution, key: str) -> None:
        await self._wait_until_running(execution)
        self._press_until_delivered(execution, key, _RETRY_DELAYS)

    async def kill(self, execution: Execution) -> None:
        await self._wait_until_running(execution)
        if not execution.is_over:
            self._kill_foreground()

    def abandon(self, execution: Execution) -> None:
        """End a command whose caller was cancelled: SIGINT, SIGTERM, SIGKILL, then kill bash."""
        if execution.is_over:
            return
        execution.interrupt(Interruption.ABANDONED)
        steps: tuple[Callable[[BashProcess], object], ...] = (
            lambda _: self._press_until_delivered(execution, "C-c", _RETRY_DELAYS),
            lambda bash: bash.signal_foreground(signal.SIGTERM),
            lambda _: self._kill_foreground(),
            lambda bash: bash.kill(),
        )

        def step(number: int) -> None:
            bash = self._bash()
            if execution.is_over or bash is None:
                return
            steps[number](bash)
            if number + 1 < len(steps):
                execution.later(_STEP_INTERVAL, lambda: step(number + 1))

        execution.when_begun = lambda: step(0)
        if execution.stage is CommandStage.RUNNING:
            step(0)
        else:  # a signal now could hit bash while it still reads the line
            self._poll_for_start(execution)

    def _press_until_delivered(
        self, execution: Execution, key: str, again: tuple[float, ...]
    ) -> None:
        """Press a key, and press it again if its signal was lost (`BashProcess.press`)."""
        bash = self._bash()
        if execution.is_over or bash is None:
            return
        at_bash = bash.foreground() == bash.pid
        if at_bash and execution.was_asked and not bash.is_in_command():
            return  # bash is answering a query at its prompt; a signal would break the query
        signalled = bash.press(key)
        if signalled is not None:
            self._press_later(execution, key, signalled, again)
        execution.later(_IDLE, lambda: self._end_query.query(execution))

    def _press_later(
        self, execution: Execution, key: str, signalled: int, again: tuple[float, ...]
    ) -> None:
        """Press the key again once another process group than `signalled` is in the foreground."""
        if not again:
            return

        def check() -> None:
            bash = self._bash()
            if bash is None or execution.is_over:
                return
            if bash.foreground() in (bash.pid, signalled):
                self._press_later(execution, key, signalled, again[1:])
            else:
                self._press_until_delivered(execution, key, again[1:])

        execution.later(again[0], check)

    def _kill_foreground(self) -> None:
        bash = self._bash()
        if bash is None:
            return
        if bash.foreground() == bash.pid or not bash.signal_foreground(signal.SIGKILL):
            bash.kill()  # a builtin runs inside bash, so only bash itself can be killed

    async def _wait_until_running(self, execution: Execution) -> None:
        """Wait until bash runs the command. An earlier signal could be lost or destroy the line."""
        await execution.until(CommandStage.SENT)
        self._poll_for_start(execution)
        await execution.until(CommandStage.RUNNING)
        execution.interrupt(Interruption.SIGNALLED)

    def _poll_for_start(self, execution: Execution) -> None:
        """Bash sends no start event, so poll; this is rarely needed."""
        bash = self._bash()
        if execution.stage is not CommandStage.SENT or bash is None:
            return
        if bash.is_in_command() or execution.age() > _STEP_INTERVAL:
            execution.begin()
        else:
            execution.later(_POLL_INTERVAL, lambda: self._poll_for_start(execution))
