"""A shell's log on disk: its output, addressed by byte position and bounded in size."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bascule.core.contracts import LogMatch, OutputLog
from bascule.core.errors import InvalidPattern, InvalidRange, LogRangeGone

logger = logging.getLogger(__name__)

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_BLOCK_BYTES = 4096
"""Holes are punched in whole blocks of the file system."""
_READ_BYTES = 1 << 20
_SEARCH_PROGRAM = str(Path(__file__).with_name("_search_main.py"))
_SEARCH_TIMEOUT = 10.0


class DiskLog(OutputLog):
    """A log in one file. Positions are file offsets, so `tail -c` reads the same bytes as `read`.

    Above `limit` bytes, the oldest bytes are freed by punching a hole; positions do not change. On
    a full disk the shell continues without its log: `lost` counts the bytes that were not written,
    and reading them raises `LogRangeGone`.
    """

    def __init__(self, path: Path, *, limit: int, held: tuple[int, int] = (0, 0)) -> None:
        """Create a log. With `held` (start and end position), reopen the existing log at `path`."""
        self._path = path
        self._limit = max(limit, _BLOCK_BYTES)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._start, self._end = held
        os.ftruncate(self._fd, self._end)
        self.lost = 0

    @property
    def start(self) -> int:
        return self._start

    @property
    def end(self) -> int:
        return self._end

    @property
    def path(self) -> Path:
        return self._path

    def append(self, data: bytes) -> None:
        at = self._end
        self._end += len(data)
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self._fd, view, at)
                view, at = view[written:], at + written
        except OSError as error:
            if not self.lost:
                logger.warning("the log %s cannot be written: %s", self._path, error)
            self.lost += len(view)
            self._start = self._end
        # Drop in steps of an eighth, so that a long output does not punch a hole for every chunk.
        if self._end - self._start > self._limit + self._limit // 8:
            self._drop_until(self._end - self._limit)

    def read(self, start: int, end: int | None = None) -> bytes:
        end = self._end if end is None else min(end, self._end)
        if start < 0 or end < start:
            raise InvalidRange(
                f"no such range in the log: {start} to {end}; it holds {self._start} to {self._end}"
            )
        if start < self._start:
            raise LogRangeGone(
                f"the log now starts at {self._start}; {start} was dropped to keep it within "
                f"{self._limit:,} bytes",
                start=self._start,
                end=self._end,
            )
        parts = []
        while start < end and (part := os.pread(self._fd, min(_READ_BYTES, end - start), start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def search(self, pattern: str, *, start: int = 0, limit: int = 100) -> Sequence[LogMatch]:
        try:
            re.compile(pattern.encode())
        except (re.error, UnicodeEncodeError) as error:
            raise InvalidPattern(f"not a regular expression: {pattern!r}: {error}") from error
        arguments = (str(self._fd), str(max(start, self._start)), str(limit))
        if "\0" in pattern:
            raise InvalidPattern(f"a pattern cannot contain a NUL byte: {pattern!r}; use \\x00")
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", _SEARCH_PROGRAM, *arguments, pattern],
                pass_fds=(self._fd,),
                stdout=subprocess.PIPE,
                timeout=_SEARCH_TIMEOUT,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            raise InvalidPattern(
                f"the pattern {pattern!r} was not done after {_SEARCH_TIMEOUT:g} seconds; use one "
                "with fewer repetitions inside repetitions"
            ) from error
        return [LogMatch(offset, line) for offset, line in json.loads(done.stdout)]

    def close(self, *, remove: bool = True) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            if remove:
                self._path.unlink(missing_ok=True)

    def _drop_until(self, position: int) -> None:
        position -= position % _BLOCK_BYTES
        if _punch_hole(self._fd, self._start, position - self._start):
            self._start = position
            return
        # This file system cannot punch holes: truncate the file and write the newest part again at
        # its old offset. The file is sparse: positions stay valid, and the dropped part takes no
        # space.
        keep = os.pread(self._fd, self._end - position, position)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, keep, position)
        self._start = position


def _punch_hole(fd: int, offset: int, length: int) -> bool:
    result: int = _fallocate(
        fd, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(length)
    )
    return result == 0


_fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
