"""Carries one byte stream over a TLS connection, with the end of each direction.

TLS in asyncio cannot close one direction alone, and some programs send, close their direction and
then read. So the bytes travel in frames: a length of four bytes, then the bytes. Length 0 is the
end of that direction. A connection that breaks without it is an error, not an end.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from bascule.core.errors import SandboxUnreachable

logger = logging.getLogger(__name__)

_MAX_FRAME_BYTES: Final = 64 << 10
_MAX_MESSAGE_BYTES: Final = 16 << 20
"""Launch settings contain the environment of a session, which may be large."""


@dataclass(frozen=True, slots=True)
class ByteStream:
    """The two directions of a connection. Whoever opened it closes it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    def of(cls, pair: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> Self:
        return cls(*pair)

    @property
    def is_lost(self) -> bool:
        return self.writer.is_closing() or self.reader.at_eof()

    def close(self) -> None:
        """Close after what was written has been sent."""
        self.writer.close()

    async def aclose(self) -> None:
        """Close, and wait until what was written has been sent."""
        self.writer.close()
        with suppress(OSError):  # the peer has disconnected
            await self.writer.wait_closed()

    def abort(self) -> None:
        self.writer.transport.abort()


async def send_message(stream: ByteStream, message: Mapping[str, Any]) -> None:
    """Send a JSON object as one frame."""
    body = json.dumps(message).encode()
    stream.writer.write(len(body).to_bytes(4, "big") + body)
    await stream.writer.drain()


async def receive_message(stream: ByteStream) -> Mapping[str, Any]:
    """Raises `SandboxUnreachable` if the connection ends or carries something else."""
    try:
        body = await _read_frame(stream.reader, _MAX_MESSAGE_BYTES)
        message = json.loads(body)
    except (asyncio.IncompleteReadError, OSError, ValueError) as error:
        raise SandboxUnreachable(f"A connection to a pod was lost: {error}") from error
    if not isinstance(message, dict):
        raise SandboxUnreachable("A pod sent a message that is not an object")
    return message


async def join(framed: ByteStream, plain: ByteStream) -> None:
    """Copy bytes both ways until both directions have ended, or one connection breaks.

    Closes both connections. If one breaks, the other is aborted, so that its peer does not mistake
    the bytes so far for all bytes.
    """
    is_closed = False
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pack(plain.reader, framed.writer))
            both.create_task(_unpack(framed.reader, plain.writer))
        await framed.aclose()
        await plain.aclose()
        is_closed = True
    except* (OSError, asyncio.IncompleteReadError, ValueError) as broken:
        logger.debug("a connection between hub and pod broke: %s", broken.exceptions[0])
    finally:
        if not is_closed:
            framed.abort()
            plain.abort()


async def _pack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_MAX_FRAME_BYTES):
        writer.write(len(piece).to_bytes(4, "big") + piece)
        await writer.drain()
    writer.write(bytes(4))
    await writer.drain()


async def _unpack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await _read_frame(reader, _MAX_FRAME_BYTES):
        writer.write(piece)
        await writer.drain()
    with suppress(OSError):  # the peer has disconnected already
        writer.write_eof()


async def _read_frame(reader: asyncio.StreamReader, maximum: int) -> bytes:
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > maximum:
        raise ValueError(f"a frame of {length} bytes is too long")
    return await reader.readexactly(length) if length else b""
