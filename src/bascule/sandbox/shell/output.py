"""Collects a command's output for one observation: all of it, or its head and tail."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MAX_WHOLE_BYTES = 256 << 20
"""Maximum bytes when all output is requested. Of a longer output, only head and tail are kept."""

_MAX_CHARACTER_BYTES = 4
_NOTE_CHARACTERS = 200
"""Characters of the limit that are reserved for the note about the omitted part."""


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """The output since the last `take`: decoded text and its size."""

    head: str
    tail: str
    """Empty unless output between head and tail was left out."""
    size: int
    """Bytes, including the part left out."""
    left_out: int
    """Bytes between head and tail that were left out."""


NOTHING = OutputSlice("", "", 0, 0)


class CommandOutput:
    """Collects bytes and returns text. The limit bounds its memory, not the size of the output.

    `limit` counts characters; 0 means all. If two `take` calls split a character, the later call
    returns the whole character.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._max_bytes = limit * _MAX_CHARACTER_BYTES if limit else MAX_WHOLE_BYTES
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
        """The first chunk since the last `take`."""
        return self._head[0] if self._head else b""

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._head_size < self._max_bytes:
            self._head.append(data)
            self._head_size += len(data)
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._max_bytes:
            dropped = len(self._tail.popleft())
            self._tail_size -= dropped
            self._dropped += dropped

    def take(self, *, final: bool) -> OutputSlice:
        """Return the output since the last `take`. Unless `final`, an incomplete character at the
        end is kept for the next `take`."""
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
        has_room_for_note = self.limit > 4 * _NOTE_CHARACTERS
        max_characters = self.limit - _NOTE_CHARACTERS if has_room_for_note else self.limit
        half = (max_characters or 2 * len(first)) // 2
        first, last = first[:half], last[len(last) - half :] if half else ""
        left_out = size - _width(first) - _width(last)
        return OutputSlice(_replace(first), _replace(last), size, left_out)


def _width(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _replace(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unfinished(data: bytes) -> int:
    """Length of the incomplete UTF-8 character at the end of `data`."""
    for back in range(1, min(_MAX_CHARACTER_BYTES, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            character_bytes = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if byte < 0xF8 and back < character_bytes else 0
    return 0


def _from_boundary(data: bytes) -> bytes:
    """Return `data` from its first complete UTF-8 character on."""
    for start in range(min(_MAX_CHARACTER_BYTES, len(data))):
        if not 0x80 <= data[start] < 0xC0:
            return data[start:]
    return data
