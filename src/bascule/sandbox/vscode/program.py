"""A child program that is ended with this process, and its last output."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.sandbox.shell.keeper import Keeper, ShellAccount

logger = logging.getLogger(__name__)

_LAST_WORDS: Final = 40
_ORPHANS_TO_KEEPER: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0); "
    "os.execve(sys.argv[1], sys.argv[1:], os.environ)"
)
"""A keeper makes what it starts adopt its orphans, as a shell should. A program that expects none
would never reap them, so they go to the keeper itself (36: PR_SET_CHILD_SUBREAPER)."""


class SupervisedProgram(Closable):
    """A program started by a keeper, which ends it and its children even if this process is killed.

    What detached itself from the program ends with the keeper.

    It has a terminal of its own, which is where its lines come from.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._terminal = -1
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_LAST_WORDS)
        self._awaited: tuple[re.Pattern[str], asyncio.Future[re.Match[str]]] | None = None
        self.pid = 0
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """Its exit status; negative for the signal that ended it."""

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        channel: int | None = None,
        account: ShellAccount | None = None,
    ) -> None:
        """Raises `SandboxStartFailed` when it cannot be run. `channel` is its standard input, which
        stays the caller's; without one it reads nothing."""
        self._terminal, theirs = os.openpty()
        os.set_blocking(self._terminal, False)
        nothing = await asyncio.to_thread(os.open, os.devnull, os.O_RDONLY)
        try:
            self.pid = await self._keeper.spawn(
                (sys.executable, "-I", "-S", "-c", _ORPHANS_TO_KEEPER, *argv),
                env=env,
                cwd=str(cwd),
                terminal=theirs,
                channel=nothing if channel is None else channel,
                account=account,
                on_exit=self._has_ended,
            )
        finally:
            os.close(theirs)
            os.close(nothing)
        self._loop.add_reader(self._terminal, self._read)

    async def says(self, pattern: str) -> re.Match[str]:
        """The first line that matches, of those it said last or will say.

        Raises `EOFError` if it ends before.
        """
        for line in self._lines:
            if match := re.search(pattern, line):
                return match
        found: asyncio.Future[re.Match[str]] = self._loop.create_future()
        self._awaited = re.compile(pattern), found
        either: set[asyncio.Future[Any]] = {found, self.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise EOFError(self.last_words())
        return found.result()

    def last_words(self) -> str:
        return "\n".join(self._lines)

    async def aclose(self) -> None:
        """End it and all that is still below it."""
        if self.pid and not self.ended.done():
            await self._keeper.end(self.pid)
        self._stop_reading()

    def _has_ended(self, status: int) -> None:
        if self._terminal >= 0:
            self._read()
        if not self.ended.done():
            self.ended.set_result(status)

    def _read(self) -> None:
        data = b""
        with suppress(BlockingIOError):
            try:
                data = os.read(self._terminal, 65536)
            except OSError as error:
                if isinstance(error, BlockingIOError):
                    raise
                self._stop_reading()  # EIO: nobody holds the other end any more
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._heard(line.decode(errors="replace").rstrip("\r"))

    def _heard(self, line: str) -> None:
        logger.debug("%s", line)
        self._lines.append(line)
        if self._awaited is not None and (match := self._awaited[0].search(line)):
            if not self._awaited[1].done():
                self._awaited[1].set_result(match)
            self._awaited = None

    def _stop_reading(self) -> None:
        if self._terminal >= 0:
            self._loop.remove_reader(self._terminal)
            os.close(self._terminal)
            self._terminal = -1
