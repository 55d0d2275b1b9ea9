"""Programs with pipes over the wire: their state as JSON, and frames of their output.

A frame is its kind (one byte), a position (eight bytes, big-endian) and data. In an HTTP body, the
length of all this comes before it, in four bytes; in a WebSocket, a message is one frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final

from bascule.core.errors import InvalidAction, RemoteError
from bascule.core.programs import ProgramOutput, ProgramStatus, ProgramStream

from .jsontext import from_json, to_json

MEDIA_TYPE: Final = "application/vnd.bascule.program-output"
STARTED_BY: Final = "X-Bascule-Started-By"
"""Header with the id of the token for which a hub starts a program."""
MAX_FRAME_BYTES: Final = 1 << 20
_HEAD: Final = struct.Struct("!BQ")
_LENGTH: Final = struct.Struct("!I")
_MAX_POSITION: Final = 1 << 53
_TYPES: Final = {"str": (str,), "int": (int,), "bool": (bool,), "int | None": (int, type(None))}


class FrameKind(IntEnum):
    STDOUT = 1
    STDERR = 2
    HEARTBEAT = 3
    """Nothing was printed for a while."""
    EXITED = 4
    """The last frame: the program's state as JSON. The position is its number of bytes of
    stdout."""


_STREAMS: Final[dict[FrameKind, ProgramStream]] = {
    FrameKind.STDOUT: "stdout",
    FrameKind.STDERR: "stderr",
}
_KINDS: Final = {stream: kind for kind, stream in _STREAMS.items()}


@dataclass(frozen=True, slots=True)
class OutputFrame:
    kind: FrameKind
    position: int
    data: bytes

    @property
    def stream(self) -> ProgramStream | None:
        """The stream of the data; None for another kind of frame."""
        return _STREAMS.get(self.kind)


def encode_output(piece: ProgramOutput | None) -> bytes:
    """A frame with output; for None, a heartbeat."""
    if piece is None:
        return _HEAD.pack(FrameKind.HEARTBEAT, 0)
    return _HEAD.pack(_KINDS[piece.stream], piece.offset) + piece.data


def encode_exit(status: ProgramStatus) -> bytes:
    return _HEAD.pack(FrameKind.EXITED, status.stdout) + to_json(encode_status(status))


def with_length(frame: bytes) -> bytes:
    """A frame for an HTTP body."""
    return _LENGTH.pack(len(frame)) + frame


def encode_status(status: ProgramStatus) -> dict[str, Any]:
    return {each.name: getattr(status, each.name) for each in fields(status)}


def decode_status(value: object) -> ProgramStatus:
    """Raises `RemoteError` for anything else, such as the answer of another server."""
    if not isinstance(value, dict):
        raise _unreadable("the state of a program is no object")
    found: dict[str, Any] = {}
    for each in fields(ProgramStatus):
        if each.name == "argv":
            argv = value.get("argv")
            if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
                raise _unreadable("argv is no list of texts")
            found["argv"] = tuple(argv)
        elif each.name in value:
            field = value[each.name]
            allowed = _TYPES[str(each.type)]
            if not isinstance(field, allowed) or (isinstance(field, bool) and bool not in allowed):
                raise _unreadable(f"{each.name} is {field!r}")
            found[each.name] = field
    try:
        return ProgramStatus(**found)
    except TypeError as error:
        raise _unreadable(str(error)) from None


class FrameReader:
    """Splits the bytes of an HTTP body into frames. Raises `RemoteError` for invalid ones."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[OutputFrame]:
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._buffer, start)
                if not _HEAD.size <= size <= MAX_FRAME_BYTES:
                    raise _unreadable(f"a frame of {size} bytes")
                end = start + _LENGTH.size + size
                if len(self._buffer) < end:
                    return
                with memoryview(self._buffer) as view:
                    frame = bytes(view[start + _LENGTH.size : end])
                start = end
                yield decode_frame(frame)
        finally:
            del self._buffer[:start]


def decode_frame(frame: bytes) -> OutputFrame:
    if len(frame) < _HEAD.size:
        raise _unreadable(f"a frame of {len(frame)} bytes")
    number, position = _HEAD.unpack_from(frame)
    try:
        kind = FrameKind(number)
    except ValueError:
        raise _unreadable(f"a frame of the unknown kind {number}") from None
    if position > _MAX_POSITION:
        raise _unreadable(f"the position {position}")
    return OutputFrame(kind, position, frame[_HEAD.size :])


def decode_exit(frame: OutputFrame) -> ProgramStatus:
    try:
        return decode_status(from_json(frame.data))
    except InvalidAction as error:
        raise _unreadable(error.message) from error


def _unreadable(what: str) -> RemoteError:
    return RemoteError(
        f"The sandbox sent output of a program that cannot be read: {what}", remote_code=""
    )
