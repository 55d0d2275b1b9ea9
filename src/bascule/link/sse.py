"""Parses server-sent events from chunks of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bascule.core.errors import MessageTooLarge

_MAX_LINES: Final = 10_000
"""Maximum number of data lines of one event: a short line needs far more memory than its bytes."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    name: str
    data: bytes
    id: str = ""


class EventReader:
    """Assembles events from chunks that may end anywhere; lines end in LF or CRLF.

    `feed` raises `MessageTooLarge` for an event of more than `limit` bytes, or of very many lines.
    """

    def __init__(self, *, limit: int = 64 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._rest = bytearray()
        self._name = "message"
        self._id = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        searched = len(self._rest)
        self._rest += chunk
        start = 0
        while (end := self._rest.find(b"\n", max(start, searched))) >= 0:
            line = bytes(self._rest[start:end]).removesuffix(b"\r")
            start = end + 1
            if line:
                self._size += len(line)
                self._ensure_fits(self._size)
                self._handle_line(line)
            elif event := self._finish():
                yield event
        del self._rest[:start]
        self._ensure_fits(self._size + len(self._rest))

    def _ensure_fits(self, size: int) -> None:
        if size > self._limit or len(self._data) > _MAX_LINES:
            raise MessageTooLarge(f"An event is larger than {self._limit} bytes")

    def _handle_line(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"data":
            self._data.append(value)
        elif field == b"id":
            self._id = value.decode(errors="replace")

    def _finish(self) -> ServerEvent | None:
        data, name = b"\n".join(self._data), self._name
        self._name, self._size = "message", 0
        if not self._data:
            return None
        self._data = []
        return ServerEvent(name, data, self._id)
