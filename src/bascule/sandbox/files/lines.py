"""Finds the positions of lines, quickly. Only a newline ends a line.

`str.splitlines` also splits at form feeds, vertical tabs and U+2028. Editors, `grep` and the kernel
do not.
"""

from __future__ import annotations

import os
from typing import AnyStr

_BLOCK_SIZE = 1 << 14
_READ_BYTES = 1 << 20


def skip_lines(text: AnyStr, count: int, *, start: int = 0) -> int:
    """Return the position after `count` newlines from `start` on; the end if there are fewer."""
    newline = _newline(text)
    at, end = start, len(text)
    while count > 0:
        if at >= end:
            return end
        stop = min(at + _BLOCK_SIZE, end)
        here = text.count(newline, at, stop)
        if here < count:
            at, count = stop, count - here
            continue
        for _ in range(count):
            at = text.index(newline, at) + 1
        break
    return at


def slice_lines(text: AnyStr, start: int, end: int) -> AnyStr:
    """Return lines `start` up to, not including, `end`; 0-based. -1 means the end of the text."""
    first = skip_lines(text, start)
    if end < 0:
        return text[first:]
    return text[first : skip_lines(text, max(end - start, 0), start=first)]


def count_lines(text: AnyStr) -> int:
    """Count lines, including a last line without a newline."""
    newline = _newline(text)
    return text.count(newline) + (len(text) > 0 and not text.endswith(newline))


def skip_lines_in_file(descriptor: int, count: int, *, start: int = 0) -> int:
    """Like `skip_lines`, for an open file of any size."""
    at = start
    while count > 0:
        block = os.pread(descriptor, _READ_BYTES, at)
        if not block:
            break
        here = block.count(b"\n")
        if here >= count:
            return at + skip_lines(block, count)
        at, count = at + len(block), count - here
    return at


def _newline(text: AnyStr) -> AnyStr:
    if isinstance(text, str):
        return "\n"
    return b"\n"
