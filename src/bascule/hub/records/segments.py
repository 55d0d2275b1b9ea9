"""The lines of a record in files: appended at the end, read from any number, deleted from the
front.

A record is a directory of files, each named by the record's epoch and the number of its first
line. Lines are deleted one whole file at a time, so a record exceeds its limits by at most one
file. Everything here blocks.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import BasculeError, StorageFailed
from bascule.wire import from_json

logger = logging.getLogger(__name__)

_FILE_NAME: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{12})\.jsonl")
_NUMBER: Final = re.compile(rb'\{"n":([0-9]{1,15}),')
_FILES_PER_RECORD: Final = 8
"""Approximate number of files of a full record."""
_MIN_FILE_BYTES: Final = 4096
_MAX_FILE_SPAN: Final = 86400.0
"""Longest time span of the lines in one file, in seconds. Old lines are deleted late by at most
this time."""
_BLOCK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class RecordLine:
    number: int
    text: bytes
    """JSON, with the newline."""
    time: float


@dataclass(frozen=True, slots=True)
class _Segment:
    path: Path
    epoch: str
    first: int


class Segments:
    """The files of one record. One thread may write at a time; reads may run meanwhile."""

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._max_file_bytes = max(_MIN_FILE_BYTES, max_bytes // _FILES_PER_RECORD)
        self._current: _Segment | None = None
        self._size = 0
        """Bytes of the current file, including lines that are about to be written."""
        self._since = 0.0
        """Time of the first line in the current file."""
        self.epoch = ""
        self.last = 0
        """The number of the newest line."""

    def open(self) -> dict[str, Any] | None:
        """Find where an earlier process stopped; returns the last complete line, if any.

        A half-written line at the end gets a newline, so that the next line starts after it.
        """
        files = self._list()
        if not files:
            self.epoch = secrets.token_hex(8)
            return None
        self._current = files[-1]
        self.epoch = self._current.epoch
        self._size = _end_last_line(self._current.path)
        newest: dict[str, Any] | None = None
        for each in reversed(files):
            newest = _newest_line(each.path)
            if newest is not None:
                break
        self.last = max(self._current.first - 1, 0 if newest is None else int(newest["n"]))
        first = _oldest_line(self._current.path)
        self._since = 0.0 if first is None else float(first["time"])
        return newest

    def append(self, lines: Sequence[RecordLine]) -> None:
        """Append lines. Raises `StorageFailed`; a file that failed keeps only its old lines."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            pending: list[RecordLine] = []
            for line in lines:
                if self._is_full(line.time):
                    self._write(pending)
                    pending = []
                    self._begin_file(line)
                if self._size == 0:
                    self._since = line.time
                pending.append(line)
                self._size += len(line.text)
            self._write(pending)
        except OSError as error:
            self._current = None  # its size is no longer known
            message = f"Actions cannot be recorded: {error.strerror or error}"
            raise StorageFailed(message) from error

    def read(self, *, after: int = 0, max_bytes: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Complete lines with numbers above `after`, oldest first; at most the newest `max_bytes`.

        Skips a half-written line that a killed process left.
        """
        files = self._list()
        ends = [each.first for each in files[1:]]  # the newest file has no end yet
        skipped = sum(end <= after + 1 for end in ends)
        wanted = files[skipped:]
        for path, start in _newest_bytes([each.path for each in wanted], max_bytes):
            for line in _lines(path, start):
                match = _NUMBER.match(line)
                if match is not None and line.endswith(b"}\n") and int(match[1]) > after:
                    yield int(match[1]), line

    def sweep(self, *, before: float) -> None:
        """Delete files last written before `before`, and the oldest files above the size limit.

        If no line remains, an empty file is created, whose name has the number of the next line.
        """
        files = self._list()
        sizes = {each.path: _stat(each.path) for each in files}
        total = sum(0 if stat is None else stat.st_size for stat in sizes.values())
        for each in files:
            stat = sizes[each.path]
            is_last = each == files[-1]
            is_old = stat is not None and stat.st_size > 0 and stat.st_mtime < before
            if stat is None or not (is_old or (total > self._max_bytes and not is_last)):
                continue
            if is_last:
                self._begin_file(RecordLine(max(self.last, each.first - 1) + 1, b"", 0.0))
            each.path.unlink(missing_ok=True)
            total -= stat.st_size

    def is_empty(self) -> bool:
        """Whether the record has no lines."""
        return not any((stat := _stat(each.path)) and stat.st_size for each in self._list())

    def remove(self) -> None:
        if self._directory.exists():
            shutil.rmtree(self._directory)
        self._current, self._size, self.last = None, 0, 0

    # ----------------------------------------------------------------------------------------

    def _list(self) -> list[_Segment]:
        if not self._directory.is_dir():
            return []
        matches = ((each, _FILE_NAME.fullmatch(each.name)) for each in self._directory.iterdir())
        files = [_Segment(each, match[1], int(match[2])) for each, match in matches if match]
        return sorted(files, key=lambda each: each.first)

    def _is_full(self, now: float) -> bool:
        if self._current is None:
            return True
        is_too_old = self._size > 0 and now - self._since > _MAX_FILE_SPAN
        return self._size >= self._max_file_bytes or is_too_old

    def _begin_file(self, line: RecordLine) -> None:
        path = self._directory / f"{self.epoch}.{line.number:012d}.jsonl"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        self._current = _Segment(path, self.epoch, line.number)
        self._size, self._since = _end_last_line(path), line.time
        self._drop_excess()

    def _drop_excess(self) -> None:
        """Delete the oldest files until a new file fits below the size limit."""
        stats = [(each.path, _stat(each.path)) for each in self._list()[:-1]]
        total = sum(0 if stat is None else stat.st_size for _, stat in stats)
        for path, stat in stats:
            if total + self._max_file_bytes <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= 0 if stat is None else stat.st_size

    def _write(self, lines: Sequence[RecordLine]) -> None:
        if not lines or self._current is None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(self._current.path, flags, 0o600)
        try:
            old_size = os.fstat(descriptor).st_size
            rest = memoryview(b"".join(line.text for line in lines))
            try:
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            except OSError:  # for example a full disk: remove the part that was written
                os.ftruncate(descriptor, old_size)
                raise
        finally:
            os.close(descriptor)
        self.last = lines[-1].number


def _stat(path: Path) -> os.stat_result | None:
    """The result of `stat`; None if a sweep has just deleted the file."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _end_last_line(path: Path) -> int:
    """Terminate a half-written line; returns the size of the file."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return 0
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return size
        return size + file.write(b"\n")


def _newest_line(path: Path) -> dict[str, Any] | None:
    """The last complete line of a file."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        rest, block = b"", _BLOCK_BYTES
        while end > 0:
            start = max(0, end - block)
            file.seek(start)
            rest = file.read(end - start) + rest
            end, block = start, block * 2
            head, *lines = rest.split(b"\n")
            for line in reversed(lines if start else [head, *lines]):
                if (value := _decode_line(line)) is not None:
                    return value
            rest = head
    return None


def _oldest_line(path: Path) -> dict[str, Any] | None:
    for line in _lines(path, 0):
        if (value := _decode_line(line)) is not None:
            return value
    return None


def _decode_line(line: bytes) -> dict[str, Any] | None:
    if not _NUMBER.match(line):
        return None
    try:
        value = from_json(line)
    except BasculeError:
        return None
    return value if isinstance(value, dict) and {"n", "kind", "time"} <= value.keys() else None


def _lines(path: Path, start: int) -> Iterator[bytes]:
    """The lines of a file; none if the file was deleted meanwhile."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        if start > 0:
            file.seek(start - 1)
            file.readline()
        yield from file


def _newest_bytes(paths: Sequence[Path], max_bytes: int | None) -> list[tuple[Path, int]]:
    """The files to read, and where to start in each, for at most `max_bytes` bytes."""
    if max_bytes is None:
        return [(path, 0) for path in paths]
    chosen: list[tuple[Path, int]] = []
    for path in reversed(paths):
        stat = _stat(path)
        size = 0 if stat is None else stat.st_size
        chosen.append((path, max(0, size - max_bytes)))
        max_bytes -= size
        if max_bytes <= 0:
            break
    return chosen[::-1]
