"""The way out of a sandbox that has no network: a port of its own loopback, joined to a socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from bascule.core.contracts import Closable

PORT: Final = 3128
_PIECE: Final = 64 << 10


def proxy_environment(port: int = PORT) -> Mapping[str, str]:
    """By which programs find the proxy. Some read the names in small letters, some the others."""
    address, spared = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    names = {"http_proxy": address, "https_proxy": address, "no_proxy": spared}
    return names | {name.upper(): value for name, value in names.items()}


class Forwarder(Closable):
    """Whatever connects to the port is connected to the socket, a new one each time: the proxy
    behind it may have been replaced meanwhile."""

    def __init__(self, socket_path: str, port: int = PORT) -> None:
        self._socket_path = socket_path
        self._port = port
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Returns the port."""
        self._server = await asyncio.start_server(self._on_client, "127.0.0.1", self._port)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            await self._join(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            return  # either side is gone, or we close
        finally:
            self._clients.discard(task)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._socket_path)
        except OSError:
            writer.write(_NOBODY)
            return
        with contextlib.closing(far_writer):
            async with asyncio.TaskGroup() as both:
                up = both.create_task(_carry(reader, far_writer))
                await _carry(far_reader, writer)
                up.cancel()


_WORDS: Final = b"The hub, through which this session reaches the network, does not run\n"
_NOBODY: Final = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_WORDS), _WORDS)
)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
