"""Finds lines in one file by Python's regular expressions.

A malicious line can make a regular expression run forever, and Python cannot interrupt it. So
`_grep_main.py` runs this code in a separate process, which its parent can kill.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from bascule.core.errors import BinaryFile

from .textfile import SAMPLE_BYTES, decode, decode_line, is_wide, looks_binary

MAX_LINE = 16 << 20
"""Maximum bytes of a line; longer lines are skipped."""

MAX_TEXT = 1000
"""Maximum characters of a line in a result."""

_CONTEXT_BEFORE = 200
"""Characters of a long line shown before the match."""
_MAX_AT_ONCE = 8 << 20
"""Maximum bytes of a file that is read whole; a larger file is read line by line."""
_MAX_WIDE = 64 << 20
"""Maximum bytes read of a file in UTF-16 or UTF-32, which cannot be read line by line."""


@dataclass(frozen=True, slots=True)
class LineMatch:
    path: str
    line: int
    text: str


class LineSearch:
    """A pattern to search line by line. Raises `re.error` for an invalid regular expression."""

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        source = re.escape(pattern) if literal else pattern
        self._wanted = re.compile(source, re.IGNORECASE * ignore_case)
        # Most files do not contain the pattern. For plain text, a search in the undecoded bytes
        # shows that faster than a search line by line.
        plain = pattern.isascii() and not ignore_case and (literal or re.escape(pattern) == pattern)
        self._needle = pattern.encode() if plain else b""

    def search(self, descriptor: int, path: str) -> Iterator[LineMatch]:
        """Yield the lines of a file that match; none for a binary file."""
        sample = os.pread(descriptor, SAMPLE_BYTES, 0)
        if looks_binary(sample):
            return
        for number, line in enumerate(self._lines(descriptor, path, is_wide(sample)), 1):
            found = self._wanted.search(line)
            if found is not None:
                yield LineMatch(path, number, excerpt(line, found.start()))

    def _lines(self, descriptor: int, path: str, wide: bool) -> Iterator[str]:
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_MAX_WIDE if wide else _MAX_AT_ONCE)
            if wide or len(data) < _MAX_AT_ONCE:
                if wide or self._needle in data:
                    with suppress(BinaryFile):  # a byte order mark that does not fit the content
                        yield from _split(decode(data, path).content)
            else:
                file.seek(0)
                for raw in _bounded_lines(file):
                    yield decode_line(raw.rstrip(b"\n").removesuffix(b"\r"))


def excerpt(line: str, at: int) -> str:
    """Return the line; for a long line, only the part around position `at`."""
    if len(line) <= MAX_TEXT:
        return line
    start = max(0, min(at - _CONTEXT_BEFORE, len(line) - MAX_TEXT))
    end = start + MAX_TEXT
    return "…" * (start > 0) + line[start:end] + "…" * (end < len(line))


def _split(content: str) -> Iterator[str]:
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    return (line.removesuffix("\r") for line in lines)


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines. A line that is too long becomes an empty line, so that line numbers stay
    right."""
    while raw := file.readline(MAX_LINE):
        if len(raw) < MAX_LINE or raw.endswith(b"\n"):
            yield raw
            continue
        while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass
        yield b""
