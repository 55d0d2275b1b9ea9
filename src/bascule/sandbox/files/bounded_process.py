"""Runs a child process, reads its output, and kills it at a deadline."""

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

_READ_BYTES = 1 << 16
_MAX_STDERR_BYTES = 4096


class DeadlineExceeded(Exception):
    """The deadline passed before the output was complete."""


class BoundedProcess:
    """A child process in an open directory. Leaving the context kills it if it still runs."""

    def __init__(
        self, argv: Sequence[str], *, directory: int, deadline: float, inherit: Sequence[int] = ()
    ) -> None:
        self._argv = argv
        self._directory = directory
        self._deadline = deadline
        self._inherit = inherit

    def __enter__(self) -> Self:
        self._stderr = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._argv,
                # The child changes directory before it closes inherited descriptors, so its copy
                # of the descriptor is still open then.
                cwd=f"/proc/self/fd/{self._directory}",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                pass_fds=self._inherit,
            )
        except OSError as error:
            self._stderr.close()
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
        self._stderr.close()

    def pieces(self, end: bytes, *, limit: int) -> Iterator[bytes]:
        """Yield the child's stdout, split at each `end`. Raises `DeadlineExceeded`.

        A piece longer than `limit` bytes is replaced by an empty one.
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

    def stderr_text(self) -> str:
        """Return the start of the child's stderr. Waits for its exit: call it after `pieces`."""
        self._process.wait()
        self._stderr.seek(0)
        return self._stderr.read(_MAX_STDERR_BYTES).decode("utf-8", "replace").strip()

    def _blocks(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        readable = select.poll()
        readable.register(output, select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0 or not readable.poll(left * 1000):
                raise DeadlineExceeded
            block = os.read(output, _READ_BYTES)
            if not block:
                return
            yield block
