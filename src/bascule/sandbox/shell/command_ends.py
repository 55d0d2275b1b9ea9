"""Decides when a command is over, from bash's reports on the channel and marks on the terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable

from .bash import BashProcess
from .execution import Execution
from .marks import CommandEnd, find_end, is_refusal, terminal_line
from .stages import OUTPUT_COMPLETE, OVER, BashState, OutputStage
from .sync import PromptSync
from .terminal_reader import TerminalReader

_MARK_TIMEOUT = 0.1
"""Seconds to wait for an end mark after the report. A signal may have prevented the mark."""
_MAX_BUFFERED = 1 << 20
"""Maximum bytes kept of an incomplete report."""
_STOPPED_STATUSES = frozenset(
    128 + number for number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
)
"""Exit codes of a program that was stopped and has become a background job."""


class CommandEnds:
    """Reads the reports of one bash.

    Calls `on_over(execution, status, background_pid)` when a command has ended. Calls
    `on_refused(execution)` if bash could not run the command; it returns whether the caller will
    retry.
    """

    def __init__(
        self,
        bash: Callable[[], BashProcess],
        *,
        state: BashState,
        terminal: TerminalReader,
        sync: PromptSync,
        on_over: Callable[[Execution, int, int], None],
        on_refused: Callable[[Execution], bool],
    ) -> None:
        self._bash = bash
        self._state = state
        self._terminal = terminal
        self._sync = sync
        self._on_over = on_over
        self._on_refused = on_refused
        self.buffer = b""
        """The beginning of an incomplete report."""

    def feed(self, data: bytes, execution: Execution | None) -> None:
        """Handle data from the channel: reports, replies to queries, and noise, which we ignore."""
        if self.buffer:
            data, self.buffer = self.buffer + data, b""
        if self._sync.settled is not None and self._sync.feed(data):
            return
        if execution is None or execution.end_report is not None:
            return  # a second reply to a query
        if (end := find_end(data, execution.nonce)) is not None:
            self.take(execution, end)
        else:
            self.buffer = data[-_MAX_BUFFERED:]

    def take(self, execution: Execution, end: CommandEnd) -> None:
        """Handle the report of an end; the last output may not have been read yet."""
        execution.end_report = end
        if execution.output_stage is not OUTPUT_COMPLETE:
            self._bash().drain()  # all output is in the terminal by now
            if self._terminal.rest and execution.stage is not OVER:
                self._terminal.take(b"", execution)  # the report shows how to parse the rest
        if execution.stage is OVER:
            return
        is_complete = execution.output_stage is OUTPUT_COMPLETE
        if is_complete or not (execution.is_marked or end.is_marked):
            self._finish(execution, end)
        else:  # the mark follows at once, unless a signal prevented it
            execution.later(_MARK_TIMEOUT, lambda: self._finish_without_mark(execution, end))

    def output_complete(self, execution: Execution) -> None:
        """Handle the end mark. The report may have arrived before the mark, or not yet."""
        if (end := execution.end_report) is not None:
            self._finish(execution, end)

    def _finish_without_mark(self, execution: Execution, end: CommandEnd) -> None:
        def finish() -> None:
            if not execution.is_over:
                self._finish(execution, end)

        self._bash().after_output(finish)

    def _finish(self, execution: Execution, end: CommandEnd) -> None:
        if self._terminal.rest and execution.output_stage is not OUTPUT_COMPLETE:
            self._terminal.flush(execution)
        if end.status == 1 and not (bash := self._bash()).has_terminal():
            bash.send_lines(terminal_line(bash.terminal))
            if _was_refused(execution):
                self._terminal.forget_background()
                if self._on_refused(execution):
                    return
        execution.path = end.path
        must_sync = bool(execution.interruption or execution.was_asked)
        if must_sync:
            self._sync.begin()
        # Bash prints notices about a stopped program, and about its end, at any later time.
        self._state.command_ended(end, is_disturbed=must_sync or end.status in _STOPPED_STATUSES)
        self._on_over(execution, end.status, end.background_pid)


def _was_refused(execution: Execution) -> bool:
    """Whether bash could not run the command because an earlier command closed its terminal."""
    if execution.is_retry:
        return False
    has_started = execution.output_stage is not OutputStage.EXPECTED
    return not has_started or is_refusal(execution.output.beginning())
