"""Collects a command's output for one observation: all of it, or its head and tail."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WHOLE = 256 << 20
"""Bytes kept when all output is asked for; beyond it, head and tail, like any other limit."""

_LONGEST_CHARACTER = 4
_NOTE = 200
"""Characters of the limit kept for the note that says what was left out."""


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """The output since the last `take`: decoded text and its size."""

    head: str
    tail: str
    """Empty unless something was left out between the two."""
    size: int
    """Bytes, left-out part included."""
    left_out: int
    """Bytes."""


NOTHING = OutputSlice("", "", 0, 0)


class CommandOutput:
    """Bytes in, text out. Memory is bounded by the limit, not by what is printed.

    `limit` counts characters; 0 means all. A character split between two answers goes whole into
    the later one.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        room = limit * _LONGEST_CHARACTER if limit else WHOLE
        self._room = room
        self._begin()

    def _begin(self) -> None:
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._head_size = self._tail_size = self._size = self._dropped = 0

    @property
    def size(self) -> int:
        """Bytes since the last `take`."""
        return self._size

    def beginning(self) -> bytes:
        """The first of it since the last `take`, as much as came at once."""
        return self._head[0] if self._head else b""

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._head_size < self._room:
            self._head.append(data)
            self._head_size += len(data)
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._room:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone

    def take(self, *, final: bool) -> OutputSlice:
        """All since the last time. Unless `final`, an unfinished last character is kept back."""
        size = self._size
        if not size:
            return NOTHING
        head, tail = b"".join(self._head), b"".join(self._tail)
        dropped = self._dropped
        self._begin()
        if not final:
            end = tail or head
            if kept := _unfinished(end):
                self.add(end[-kept:])
                size -= kept
                head, tail = (head, tail[:-kept]) if tail else (head[:-kept], tail)
        if not dropped:
            whole = head + tail if tail else head
            if not self.limit or len(whole) <= self.limit:
                return OutputSlice(whole.decode("utf-8", "replace"), "", size, 0)
            text = whole.decode("utf-8", "surrogateescape")
            if len(text) <= self.limit:
                return OutputSlice(_replace(text), "", size, 0)
            first, last = text, text
        else:
            first = head.decode("utf-8", "surrogateescape")
            last = _from_boundary(tail).decode("utf-8", "surrogateescape")
        room = self.limit - _NOTE if self.limit > 4 * _NOTE else self.limit
        half = (room or 2 * len(first)) // 2
        first, last = first[:half], last[len(last) - half :] if half else ""
        left_out = size - _width(first) - _width(last)
        return OutputSlice(_replace(first), _replace(last), size, left_out)


def _width(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _replace(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unfinished(data: bytes) -> int:
    """Length of the beginning of a character that `data` ends with."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if byte < 0xF8 and back < wanted else 0
    return 0


def _from_boundary(data: bytes) -> bytes:
    """`data` from its first whole character on."""
    for start in range(min(_LONGEST_CHARACTER, len(data))):
        if not 0x80 <= data[start] < 0xC0:
            return data[start:]
    return data
