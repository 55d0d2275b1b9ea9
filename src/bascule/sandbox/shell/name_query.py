"""Asks bash what it would run for a name: a program, a builtin or a function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .bash import BashProcess
from .marks import find_types, new_nonce, types_line

_TIMEOUT = 10.0
"""Seconds for bash to answer. It answers in less than a millisecond, unless it was stopped."""
_UNKNOWN = "unknown"


class NameQuery:
    """Asks one question at a time, on the command channel, while bash waits for a command.

    A name for which bash gave no answer has the type `unknown`.
    """

    def __init__(self, bash: Callable[[], BashProcess | None]) -> None:
        self._bash = bash
        self._nonce = b""
        self._received = b""
        self._answer: asyncio.Future[Sequence[str]] | None = None

    async def ask(self, names: Sequence[str]) -> Sequence[str]:
        bash = self._bash()
        if not names or bash is None:
            return [_UNKNOWN] * len(names)
        nonce = new_nonce()
        self._nonce, self._received = nonce.encode(), b""
        answer = self._answer = asyncio.get_running_loop().create_future()
        try:
            bash.send_lines(types_line(nonce, names))
            async with asyncio.timeout(_TIMEOUT):
                found: Sequence[str] = await answer
        except TimeoutError:
            found = ()
        finally:
            self._answer = None
        return found if len(found) == len(names) else [_UNKNOWN] * len(names)

    def feed(self, data: bytes) -> bool:
        """Handle data from the channel. True if a question is open; `data` then belongs to the
        answer."""
        if self._answer is None:
            return False
        self._received += data
        found = find_types(self._received, self._nonce)
        if found is not None and not self._answer.done():
            self._answer.set_result(found)
        return True

    def end(self) -> None:
        """Give up waiting for an answer, because bash has ended."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(())
