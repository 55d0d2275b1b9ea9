"""Framing of the debug adapter protocol: a header with the length, then JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from bascule.core.errors import InvalidRequest

Message: TypeAlias = dict[str, Any]
MAX_MESSAGE: Final = 64 << 20
_END: Final = b"\r\n\r\n"
_MAX_HEAD: Final = 4096


def encode(message: Message) -> bytes:
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=repr)
    data = body.encode("utf-8", "surrogatepass" if not body.isascii() else "strict")
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class Decoder:
    """Decodes messages from chunks of a stream, split anywhere."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add `data` and yield the messages that are now complete.

        Raises `InvalidRequest` for invalid data. The stream is then unusable, because the start of
        the next message is unknown.
        """
        self._buffer += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> Message | None:
        end = self._buffer.find(_END)
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise InvalidRequest("A message of the debug adapter protocol has no header")
            return None
        length = _length(bytes(self._buffer[:end]))
        start = end + len(_END)
        if len(self._buffer) < start + length:
            return None
        body = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        return _parse(body)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
            if length <= MAX_MESSAGE:
                return length
    raise InvalidRequest(f"The header of a message has no valid length: {head[:100]!r}")


def _parse(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise InvalidRequest(f"A message is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise InvalidRequest("A message must be a JSON object")
    return message
