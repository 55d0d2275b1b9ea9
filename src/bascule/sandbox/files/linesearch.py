"""Finding lines in one file by Python's regular expressions.

Those can take for ever on a line made for it, and cannot be stopped from inside: `_grep_main.py`
runs this in a process that can be ended from outside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from bascule.core.errors import BinaryFile

from .textfile import SAMPLE, decode, decode_line, is_wide, looks_binary

MAX_LINE = 16 << 20
"""Bytes past which a line is passed over."""

MAX_TEXT = 1000
"""Characters of a line that are shown."""

_BEFORE = 200
_AT_ONCE = 8 << 20
_MAX_WIDE = 64 << 20


@dataclass(frozen=True, slots=True)
class LineMatch:
    path: str
    line: int
    text: str


class LineSearch:
    """A pattern to look for, line by line. Raises `re.error` for what is no regular expression."""

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        source = re.escape(pattern) if literal else pattern
        self._wanted = re.compile(source, re.IGNORECASE * ignore_case)
        # Most files do not hold a plain text at all, which their bytes tell faster than lines.
        plain = pattern.isascii() and not ignore_case and (literal or re.escape(pattern) == pattern)
        self._needle = pattern.encode() if plain else b""

    def search(self, descriptor: int, path: str) -> Iterator[LineMatch]:
        """The lines of a file in which the pattern is found; none of a binary one."""
        sample = os.pread(descriptor, SAMPLE, 0)
        if looks_binary(sample):
            return
        for number, line in enumerate(self._lines(descriptor, path, is_wide(sample)), 1):
            found = self._wanted.search(line)
            if found is not None:
                yield LineMatch(path, number, excerpt(line, found.start()))

    def _lines(self, descriptor: int, path: str, wide: bool) -> Iterator[str]:
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_MAX_WIDE if wide else _AT_ONCE)
            if wide or len(data) < _AT_ONCE:
                if wide or self._needle in data:
                    with suppress(BinaryFile):  # the mark of an encoding that it is not in
                        yield from _split(decode(data, path).content)
            else:
                file.seek(0)
                for raw in _bounded_lines(file):
                    yield decode_line(raw.rstrip(b"\n").removesuffix(b"\r"))


def excerpt(line: str, at: int) -> str:
    """The line; of a long one, the part around position `at`."""
    if len(line) <= MAX_TEXT:
        return line
    start = max(0, min(at - _BEFORE, len(line) - MAX_TEXT))
    end = start + MAX_TEXT
    return "…" * (start > 0) + line[start:end] + "…" * (end < len(line))


def _split(content: str) -> Iterator[str]:
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    return (line.removesuffix("\r") for line in lines)


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """A line that is too long comes as an empty one, to keep the numbers right."""
    while raw := file.readline(MAX_LINE):
        if len(raw) < MAX_LINE or raw.endswith(b"\n"):
            yield raw
            continue
        while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass
        yield b""
