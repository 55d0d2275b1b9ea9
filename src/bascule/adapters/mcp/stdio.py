"""MCP over stdin and stdout, for a client that starts this process."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

from mcp.server.stdio import stdio_server

from ._server import make_server
from ._targets import ToolTargets

_MAX_MESSAGE_BYTES: Final = 64 << 20
"""Maximum bytes of one message."""


async def serve_stdio(targets: ToolTargets) -> None:
    """Serve the client until it closes this process's stdin. Nothing else may write to stdout."""
    server = make_server(lambda _: targets)
    # The library only iterates over `stdin`. Its own default reads in a thread that cannot be
    # cancelled: after a signal, the process would wait for the client's next message.
    lines: Any = _lines() if _is_pipe(0) else None
    async with stdio_server(stdin=lines) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _lines() -> AsyncIterator[str]:
    reader = asyncio.StreamReader(limit=_MAX_MESSAGE_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while line := await reader.readline():
            yield line.decode("utf-8", "replace")
    finally:
        transport.close()
