"""The two peers of the proxy: the client on stdin and stdout, and the agent, which is a program."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from bascule.core.errors import ExecutionError, UsageError
from bascule.core.programs import Program

from .lines import LineOutbox, LineSplitter

_READ_BYTES: Final = 1 << 16


class LinePeer(ABC):
    """Sends and receives lines. `outbox.run` must run for lines to be sent."""

    outbox: LineOutbox

    @abstractmethod
    def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines that arrive, until the peer ends. Raises `MessageTooLarge`."""


class ClientPeer(LinePeer):
    """The client, which has started this process. `open` comes first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.outbox = LineOutbox(self._write, "The client")

    @classmethod
    async def open(cls) -> ClientPeer:
        """Take stdin and stdout. Nothing else may write to stdout."""
        loop = asyncio.get_running_loop()
        for descriptor, name in ((0, "stdin"), (1, "stdout")):
            _ensure_stream(descriptor, name)
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, sys.stdout
        )
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    async def lines(self) -> AsyncGenerator[bytes, None]:
        splitter = LineSplitter()
        while data := await self._reader.read(_READ_BYTES):
            for line in splitter.feed(data):
                yield line

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class AgentPeer(LinePeer):
    """The agent. Its stderr is passed on to stderr of this process."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.outbox = LineOutbox(program.write, "The agent")

    async def lines(self) -> AsyncGenerator[bytes, None]:
        splitter = LineSplitter()
        async with aclosing(self._program.output()) as output:
            async for piece in output:
                if piece.stream == "stderr":
                    await asyncio.to_thread(_write_log, piece.data)
                    continue
                if piece.dropped:
                    raise ExecutionError(
                        f"The client did not read for so long that {piece.dropped:,} bytes of the "
                        "agent's output were lost"
                    )
                for line in splitter.feed(piece.data):
                    yield line


def _write_log(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def _ensure_stream(descriptor: int, name: str) -> None:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        raise UsageError(f"{name} is closed; an ACP client must start this command") from None
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)):
        raise UsageError(f"{name} must be a pipe to an ACP client, not a file")
