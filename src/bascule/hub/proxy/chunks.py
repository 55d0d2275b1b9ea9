"""Strict parser of chunked response bodies; it refuses malformed chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_MAX_LINE_BYTES: Final = 4096
"""Maximum bytes of a line between chunks."""
_MAX_TRAILER_BYTES: Final = 16 << 10
_LINE_BREAK: Final = -1


class BadChunk(ValueError):
    """The bytes are not a valid chunked body."""


class Chunks:
    """Decodes a chunked body from bytes as they arrive."""

    def __init__(self) -> None:
        self.is_over = False
        self.after = b""
        """Bytes after the end of the body; a correct server sends none."""
        self._line = b""
        self._remaining = 0
        """Bytes missing from the current chunk; `_LINE_BREAK`: only the line break after it is
        missing."""
        self._in_trailer = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The body's bytes in `data`. Raises `BadChunk`."""
        return list(self._pieces(data))

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        position = 0
        while position < len(data):
            if self._remaining > 0:
                piece = (
                    data[position : position + self._remaining]
                    if position or self._remaining < len(data)
                    else data
                )
                self._remaining -= len(piece)
                position += len(piece)
                if self._remaining == 0:
                    self._remaining = _LINE_BREAK
                yield piece
                continue
            end = data.find(b"\n", position)
            self._line += data[position:] if end < 0 else data[position : end + 1]
            if len(self._line) > _MAX_LINE_BYTES:
                raise BadChunk("a line between chunks is too long")
            if end < 0:
                return
            position = end + 1
            self._take_line()
            if self.is_over:
                self.after = data[position:]
                return

    def _take_line(self) -> None:
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise BadChunk("a line between chunks ends without CR")
        line = line[:-2]
        if self._remaining == _LINE_BREAK:
            if line:
                raise BadChunk("a chunk is longer than its stated size")
            self._remaining = 0
        elif self._in_trailer:
            self._trailer_bytes += len(line) + 2
            if self._trailer_bytes > _MAX_TRAILER_BYTES:
                raise BadChunk("the trailer is too long")
            self.is_over = not line
        elif size := _SIZE.fullmatch(line):
            self._remaining = int(size[1], 16)
            self._in_trailer = self._remaining == 0
        else:
            raise BadChunk("a chunk's size is not a number")


def framed(pieces: list[bytes]) -> list[bytes]:
    """The bytes as one chunk. No bytes make no chunk: an empty chunk would end the body."""
    size = sum(map(len, pieces))
    return [b"%x\r\n" % size, *pieces, b"\r\n"] if size else []


LAST_CHUNK: Final = b"0\r\n\r\n"
