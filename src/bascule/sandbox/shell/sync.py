"""Makes sure that bash reads command lines again before the next command line is sent."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from .bash import BashProcess
from .marks import ask_line, find_end, new_nonce

_ANSWER_TIMEOUT = 0.1
"""Seconds for bash to answer a query."""
_INTERRUPT_DELAY = 0.05
"""Seconds for bash to handle the interrupt that clears an incomplete query."""
_MAX_TRIES = 40


class PromptSync:
    """Delays the next command until bash has answered a query.

    A signal that we sent may still be pending, and would destroy the next command's line. The
    command waits for `settled`, which is None while bash reads lines.
    """

    def __init__(self, bash: Callable[[], BashProcess | None]) -> None:
        self._bash = bash
        self._nonce = b""
        self.settled: asyncio.Future[None] | None = None

    def begin(self) -> None:
        self.settled = asyncio.get_running_loop().create_future()
        self._ask(_MAX_TRIES)

    def end(self) -> None:
        """Stop waiting, because bash answered, or there is no bash to wait for."""
        self._nonce = b""
        if self.settled is not None:
            self.settled.set_result(None)
            self.settled = None

    def feed(self, data: bytes) -> bool:
        """Handle data from the channel; True if it holds the reply."""
        if not self._nonce or find_end(data, self._nonce) is None:
            return False
        self.end()
        return True

    def _ask(self, tries: int) -> None:
        nonce = new_nonce()
        self._nonce = nonce.encode()
        if (bash := self._bash()) is not None:
            bash.send_lines(ask_line(nonce))
        loop = asyncio.get_running_loop()
        loop.call_later(_ANSWER_TIMEOUT, self._ask_again, self._nonce, tries - 1)

    def _ask_again(self, nonce: bytes, tries: int) -> None:
        """Query again if there is no reply.

        Either the machine is slow, or the signal destroyed a part of the query and bash waits for
        the rest of the line. An interrupt clears this line.
        """
        bash = self._bash()
        if self._nonce != nonce or bash is None:
            return
        bash.drain()
        if self._nonce != nonce:
            return
        if not tries:
            bash.kill()
            return
        if bash.foreground() != bash.pid:
            # No command runs now, so the foreground is a forked process before its exec, and bash
            # waits for it.
            bash.signal_foreground(signal.SIGKILL)
        elif not bash.unread_commands():
            bash.signal_foreground(signal.SIGINT)
        loop = asyncio.get_running_loop()
        loop.call_later(_INTERRUPT_DELAY, self._ask_unless_answered, nonce, tries)

    def _ask_unless_answered(self, nonce: bytes, tries: int) -> None:
        if self._nonce == nonce:
            self._ask(tries)
