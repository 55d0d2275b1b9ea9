"""A child program that ends with this process, and its last lines of output."""

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

_TAIL: Final = 40
"""How many lines of output are kept."""
_ORPHANS_TO_KEEPER: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0); "
    "os.execve(sys.argv[1], sys.argv[1:], os.environ)"
)
"""A keeper makes each child a subreaper, as a shell should be. Other programs would never reap
orphans, so this resets the attribute and the keeper adopts them (36: PR_SET_CHILD_SUBREAPER)."""


class SupervisedProgram(Closable):
    """A program started by a keeper, which ends it and its children even if this process is killed.

    A descendant that has detached itself (a daemon) ends with the keeper. The program writes its
    output to its own pseudoterminal.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._terminal = -1
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_TAIL)
        self._awaited: tuple[re.Pattern[str], asyncio.Future[re.Match[str]]] | None = None
        self.pid = 0
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """The exit status; the negative signal number if a signal ended the program."""

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        channel: int | None = None,
        account: ShellAccount | None = None,
    ) -> None:
        """Start the program. Raises `SandboxStartFailed` if it cannot be executed.

        `channel` becomes its stdin; the caller still closes it. Without a channel stdin is empty.
        """
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

    async def wait_for_output(self, pattern: str) -> re.Match[str]:
        """Wait for a line of output that matches, among the last lines or new ones.

        Raises `EOFError` with the last output if the program ends first.
        """
        for line in self._lines:
            if match := re.search(pattern, line):
                return match
        found: asyncio.Future[re.Match[str]] = self._loop.create_future()
        self._awaited = re.compile(pattern), found
        either: set[asyncio.Future[Any]] = {found, self.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise EOFError(self.output_tail())
        return found.result()

    def output_tail(self) -> str:
        """Its last lines of output."""
        return "\n".join(self._lines)

    async def aclose(self) -> None:
        """End the program and its child processes."""
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
                self._stop_reading()  # EIO: no process holds the other end open
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode(errors="replace").rstrip("\r"))

    def _on_line(self, line: str) -> None:
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
