"""Streams the output of shells to watchers while commands run.

A frame of output is `{"shell", "offset", "data"}`, with `data` in Base64. A watcher that is too
slow gets the range that was dropped, `{"shell", "offset", "end"}`; the shell's log still has it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bascule.core.broadcaster import Inbox
from bascule.core.contracts import OutputLog, OutputProgress
from bascule.core.errors import LogRangeGone, ShellClosed
from bascule.sandbox.shell.shells import DEFAULT, Shells
from bascule.wire import encode_progress

_FRAME = 256 << 10


@dataclass(frozen=True, slots=True)
class Skipped:
    """A range of a shell's log that was dropped for this watcher."""

    shell: str
    offset: int
    end: int


Frame = OutputProgress | Skipped


class Backlog(Inbox[Frame]):
    """A bounded buffer between the shells, which never wait, and a watcher that may be slow.

    Holds at most `lag` bytes. Beyond that it drops the oldest output, and a `Skipped` gives the
    range. `finish` ends `items` after everything buffered has been yielded.
    """

    def __init__(self, lag: int) -> None:
        super().__init__()
        self._lag = lag
        self._pieces: deque[OutputProgress] = deque()
        self._held = 0
        self._gaps: dict[str, Skipped] = {}

    def take(self, progress: OutputProgress) -> None:
        self._pieces.append(progress)
        self._held += len(progress.data)
        while self._held > self._lag:
            self._skip_oldest()
        self.notify()

    def _is_empty(self) -> bool:
        return not self._pieces and not self._gaps

    def _take(self) -> Frame:
        # Dropped output is always older than buffered output, so gaps go first.
        return self._gaps.popitem()[1] if self._gaps else self._next()

    def _next(self) -> OutputProgress:
        """Take the oldest piece, joined with the pieces that directly follow it in the log."""
        first = self._pieces.popleft()
        parts, size = [first.data], len(first.data)
        while self._pieces and size < _FRAME:
            then = self._pieces[0]
            if then.shell != first.shell or then.offset != first.offset + size:
                break
            self._pieces.popleft()
            parts.append(then.data)
            size += len(then.data)
        self._held -= size
        return OutputProgress(first.shell, first.offset, b"".join(parts))

    def _skip_oldest(self) -> None:
        piece = self._pieces.popleft()
        self._held -= len(piece.data)
        gap = self._gaps.get(piece.shell)
        start = piece.offset if gap is None else gap.offset
        self._gaps[piece.shell] = Skipped(piece.shell, start, piece.offset + len(piece.data))


class Watch:
    """The output of all shells from now on, or of one shell from a position in its log."""

    def __init__(self, shells: Shells, *, lag: int, shell: str | None, start: int | None) -> None:
        self._shells = shells
        self._backlog = Backlog(lag)
        self._shell = None if shell is None and start is None else (shell or DEFAULT)
        self._past: tuple[OutputLog, int, int] | None = None
        if start is not None and self._shell in shells.names():
            log = shells.get(self._shell).log
            self._past = log, start, log.end

    @contextmanager
    def open(self) -> Iterator[None]:
        """Collect output while the context is open. Earlier output is read from the log later, by
        `items`."""
        unsubscribe = self._shells.subscribe(self._take)
        try:
            yield
        finally:
            unsubscribe()

    def finish(self) -> None:
        self._backlog.finish()

    async def items(self, *, heartbeat: float | None = None) -> AsyncIterator[Frame | None]:
        if self._past is not None:
            async for past in _from_log(self._shell or DEFAULT, *self._past):
                yield past
        async for frame in self._backlog.items(heartbeat=heartbeat):
            yield frame

    def _take(self, progress: OutputProgress) -> None:
        if self._shell is None or progress.shell == self._shell:
            self._backlog.take(progress)


async def _from_log(shell: str, log: OutputLog, start: int, end: int) -> AsyncIterator[Frame]:
    while start < end:
        try:
            data = await asyncio.to_thread(log.read, start, min(start + _FRAME, end))
        except LogRangeGone:
            gone, start = start, log.start
            yield Skipped(shell, gone, start)
        except ShellClosed:
            return
        else:
            yield OutputProgress(shell, start, data)
            start += len(data)


def name_of(frame: Frame) -> str:
    return "output" if isinstance(frame, OutputProgress) else "skipped"


def encode_frame(frame: Frame) -> dict[str, Any]:
    if isinstance(frame, OutputProgress):
        return encode_progress(frame)
    return {"shell": frame.shell, "offset": frame.offset, "end": frame.end}
