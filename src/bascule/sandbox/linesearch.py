"""Finding lines in one file by Python's regular expressions.

Those can take for ever on a line made for it, and cannot be stopped from inside: `_grep_main.py`
runs this in a process that can be ended from outside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from .textfile import SAMPLE, decode, decode_line, is_wide, looks_binary

MAX_LINE = 16 << 20
"""Bytes past which a line is passed over."""

MAX_TEXT = 1000
"""Characters of a line that are shown."""

_BEFORE = 200
_MAX_WIDE = 64 << 20


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    line: int
    text: str


def compile_lines(pattern: str, *, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    """Raises `re.error` for what is no regular expression."""
    return re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE * ignore_case)


def search_file(descriptor: int, path: str, wanted: re.Pattern[str]) -> Iterator[Hit]:
    """The lines in which `wanted` is found; none of a binary file."""
    sample = os.pread(descriptor, SAMPLE, 0)
    if looks_binary(sample):
        return
    for number, line in enumerate(_lines(descriptor, path, sample), 1):
        found = wanted.search(line)
        if found is not None:
            yield Hit(path, number, excerpt(line, found.start()))


def excerpt(line: str, at: int) -> str:
    """The line; of a long one, the part around position `at`."""
    if len(line) <= MAX_TEXT:
        return line
    start = max(0, min(at - _BEFORE, len(line) - MAX_TEXT))
    end = start + MAX_TEXT
    return "…" * (start > 0) + line[start:end] + "…" * (end < len(line))


def _lines(descriptor: int, path: str, sample: bytes) -> Iterator[str]:
    with open(descriptor, "rb", closefd=False) as file:
        if is_wide(sample):
            for line in decode(file.read(_MAX_WIDE), path).content.split("\n"):
                yield line.removesuffix("\r")
            return
        for raw in _bounded_lines(file):
            yield decode_line(raw.rstrip(b"\n").removesuffix(b"\r"))


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """A line that is too long comes as an empty one, to keep the numbers right."""
    while raw := file.readline(MAX_LINE):
        if len(raw) < MAX_LINE or raw.endswith(b"\n"):
            yield raw
            continue
        while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
            pass
        yield b""
