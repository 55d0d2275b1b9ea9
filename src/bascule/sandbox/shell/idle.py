"""Queries bash for the end of a command when bash is at its prompt but has not reported the end."""

from __future__ import annotations

import signal
from collections.abc import Callable

from .bash import BashProcess
from .execution import Execution
from .marks import ask_line, repair_line

_ANSWER_TIMEOUT = 0.1
"""Seconds for bash to answer a query."""
_INTERRUPT_DELAY = 0.05
"""Seconds for bash to handle the interrupt that clears an incomplete query."""
_REPAIR_TIMEOUT = 1.0
"""Seconds for bash to answer after a repair. Then we kill bash."""


class EndQuery:
    """Handles a bash that is at its prompt although it has not reported the end of its command.

    Bash reads a query only at its prompt. If bash is busy after all, its reply comes after the end
    of the command and is ignored. If bash reads the query and does not reply, its state is broken.
    """

    def __init__(self, bash: Callable[[], BashProcess | None]) -> None:
        self._bash = bash

    def query(self, execution: Execution) -> None:
        """Send a query if bash itself is in the foreground."""
        bash = self._bash()
        if bash is not None and bash.foreground() == bash.pid:
            self._ask(execution)

    def prompt_seen(self, execution: Execution) -> None:
        """Handle output that ends in a prompt or in similar text: send a query, which is harmless
        if the text is not a prompt."""
        bash = self._bash()
        if execution.is_over or bash is None:
            return
        if execution.was_signalled and bash.is_starting_program():
            # The signal arrived while bash was starting a program, and bash returned to its prompt.
            # The forked process has the foreground and would wait for bash forever.
            bash.signal_foreground(signal.SIGKILL)
        self._ask(execution)

    def _ask(self, execution: Execution) -> None:
        bash = self._bash()
        if execution.is_over or execution.end_report is not None or bash is None:
            return
        execution.was_asked = True
        bash.send_lines(ask_line(execution.nonce.decode()))
        execution.later(_ANSWER_TIMEOUT, lambda: self._repair(execution))

    def _repair(self, execution: Execution) -> None:
        """Repair a bash that read a query and did not reply.

        Either its reporting is broken, or a signal made it lose a part of the query and it waits
        for the rest. An interrupt clears an incomplete line.
        """
        bash = self._bash()
        if execution.is_over or execution.end_report is not None or bash is None:
            return
        if bash.unread_commands():
            return
        bash.drain()  # bash's reply may come after output that we have not read yet
        self._send_repair(execution, bash)

    def _send_repair(self, execution: Execution, bash: BashProcess) -> None:
        if execution.is_over:
            return
        execution.status_unknown = not execution.was_signalled
        bash.signal_foreground(signal.SIGINT)
        repair = repair_line(execution.nonce.decode(), terminal=bash.terminal)
        execution.later(_INTERRUPT_DELAY, lambda: bash.send_lines(repair))
        execution.later(_REPAIR_TIMEOUT, lambda: None if execution.is_over else bash.kill())
