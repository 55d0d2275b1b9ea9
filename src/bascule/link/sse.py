"""Reading server-sent events: bytes in, whole events out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    name: str
    data: bytes
    id: str = ""


class EventReader:
    """Puts events together from chunks cut anywhere; lines end in LF or CRLF."""

    def __init__(self) -> None:
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
                self._take(line)
            elif event := self._finish():
                yield event
        del self._rest[:start]

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode()
        elif field == b"data":
            self._data.append(value)
        elif field == b"id":
            self._id = value.decode()

    def _finish(self) -> ServerEvent | None:
        data, name = b"\n".join(self._data), self._name
        self._name = "message"
        if not self._data:
            return None
        self._data = []
        return ServerEvent(name, data, self._id)
