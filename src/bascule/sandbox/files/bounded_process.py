"""A child process that is run for its output and killed at a deadline."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from bascule.core.errors import MissingTool

_READ = 1 << 16


class DeadlineExceeded(Exception):
    """The deadline passed before the output was complete."""


class BoundedProcess:
    """Runs in an open directory; leaving the context ends it, finished or not."""

    def __init__(
        self, argv: Sequence[str], *, directory: int, deadline: float, inherit: Sequence[int] = ()
    ) -> None:
        self._argv = argv
        self._directory = directory
        self._deadline = deadline
        self._inherit = inherit

    def __enter__(self) -> Self:
        self._complaints = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._argv,
                # The child's own descriptor: it goes there before it closes what it inherited.
                cwd=f"/proc/self/fd/{self._directory}",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                pass_fds=self._inherit,
            )
        except OSError as error:
            self._complaints.close()
            raise MissingTool(f"{self._argv[0]} cannot be run: {error}") from error
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()
        self._complaints.close()

    def pieces(self, end: bytes, *, limit: int) -> Iterator[bytes]:
        """What it prints, cut at each `end`; a piece past `limit` bytes comes as an empty one.

        Raises `DeadlineExceeded` at the deadline.
        """
        waiting = bytearray()
        overlong = False
        for block in self._blocks():
            first, *more = block.split(end)
            waiting += first
            for piece in more:
                yield b"" if overlong else bytes(waiting)
                waiting[:] = piece
                overlong = False
            if len(waiting) > limit:
                waiting.clear()
                overlong = True

    def complaints(self) -> str:
        """What it wrote to its error output, once its output has ended."""
        self._process.wait()
        self._complaints.seek(0)
        return self._complaints.read(4096).decode("utf-8", "replace").strip()

    def _blocks(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        readable = select.poll()
        readable.register(output, select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0 or not readable.poll(left * 1000):
                raise DeadlineExceeded
            block = os.read(output, _READ)
            if not block:
                return
            yield block
