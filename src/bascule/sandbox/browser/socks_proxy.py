"""The SOCKS proxy through which the browser makes all connections. It blocks some addresses.

Chromium loads everything through the proxy, also from loopback: redirects, WebSockets, workers and
frames. The proxy resolves each name once per connection and connects to the address it checked, so
DNS rebinding does not get past it. A connection to a blocked address is answered by a
`BlockedHandler` in this process, never by the server at that address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from bascule.serving.sockets import stop_accepting

logger = logging.getLogger(__name__)

VIEWER_HOST: Final = "files.bascule.invalid"
"""Host name of the file viewer; `.invalid` is never registered."""

BlockedHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CONNECT_TIMEOUT: Final = 15.0
_REQUEST_TIMEOUT: Final = 3.0
_PIECE_BYTES: Final = 1 << 16
_MAX_CONNECTIONS: Final = 512
_MAX_BLOCKED: Final = 1000
"""Maximum number of blocked hosts remembered for error messages."""
_MAX_ERRORS: Final = 200
"""Maximum number of hosts whose last error is remembered for error messages."""
_SOCKS_VERSION: Final = 5
_IPV4, _IPV6 = 1, 4
"""Types of addresses in SOCKS 5."""
_CONNECT_COMMAND: Final = 1
_OK, _FAILED, _REFUSED, _UNREACHABLE, _UNSUPPORTED = 0, 1, 5, 4, 7
"""Replies of SOCKS 5."""


class BrowserProxy:
    """Listens on its own loopback port between `start` and `aclose`."""

    def __init__(self, refused: Sequence[tuple[str, int]], blocked_handler: BlockedHandler) -> None:
        self._refused = list(refused)
        self._blocked_handler = blocked_handler
        self._server: asyncio.Server | None = None
        self._addresses: dict[int, set[Address]] = {}
        self._local_ports: set[int] = set()
        # The event loop keeps only weak references to tasks: the task of an idle connection could
        # be garbage-collected.
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._last_errors: dict[tuple[str, int], str] = {}
        self._blocked: set[tuple[str, int]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._local_ports.add(self.port)  # pages must not reach the proxy itself
        for host, port in self._refused:
            await self._refuse(host, port)

    async def aclose(self) -> None:
        if self._server is not None:
            await stop_accepting(self._server)
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def is_blocked(self, address: Address, port: int) -> bool:
        """Whether pages may not connect to this address and port."""
        if port in self._local_ports and is_of_this_machine(address):
            return True
        return address in self._addresses.get(port, ())

    def was_blocked(self, host: str, port: int) -> bool:
        """Whether a connection to that host and port was blocked."""
        return (host, port) in self._blocked

    def last_error(self, host: str, port: int) -> str:
        """Why the last connection to that host and port failed; empty if it succeeded."""
        return self._last_errors.get((host, port), "")

    async def _refuse(self, host: str, port: int) -> None:
        try:
            addresses = await _look_up(host, port)
        except OSError as error:
            logger.warning("%s:%d cannot be blocked for pages: %s", host, port, error)
            return
        if any(map(is_of_this_machine, addresses)):
            self._local_ports.add(port)
        self._addresses.setdefault(port, set()).update(addresses)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            if len(self._serving) <= _MAX_CONNECTIONS:
                await self._pass(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # one side closed the connection, which is normal
        finally:
            await _close(writer)
            del self._serving[task]

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            host, port = await _read_request(reader, writer)
        if not host:
            writer.write(_answer(_UNSUPPORTED))
            return
        if host == VIEWER_HOST:
            await self._answer_blocked(reader, writer)
            return
        try:
            addresses = await _look_up(host, port)
        except OSError as error:
            self._remember(host, port, f"the name is not known ({error.strerror or error})")
            writer.write(_answer(_UNREACHABLE))
            return
        if any(self.is_blocked(address, port) for address in addresses):
            if len(self._blocked) < _MAX_BLOCKED:
                self._blocked.add((host, port))
            await self._answer_blocked(reader, writer)
            return
        try:
            destination = await _connect(addresses, port)
        except (OSError, TimeoutError) as error:
            self._remember(host, port, _reason(error))
            writer.write(_answer(_REFUSED))
            return
        self._last_errors.pop((host, port), None)
        writer.write(_answer(_OK))
        await _join((reader, writer), destination)

    async def _answer_blocked(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Let the handler answer, then read the rest of the browser's data. Closing a socket with
        unread data would reset the connection, and the answer could be lost."""
        writer.write(_answer(_OK))
        await self._blocked_handler(reader, writer)
        with suppress(OSError):
            writer.write_eof()
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                while await reader.read(_PIECE_BYTES):
                    pass

    def _remember(self, host: str, port: int, why: str) -> None:
        if len(self._last_errors) > _MAX_ERRORS:
            self._last_errors.clear()
        self._last_errors[host, port] = why


def is_of_this_machine(address: Address) -> bool:
    """Whether a socket can bind to the address: loopback, or an address of one of this machine's
    interfaces."""
    if address.is_loopback or address.is_unspecified:
        return True
    if address.is_multicast:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, int]:
    """Read host and port of a SOCKS 5 request; an empty host if it is not a CONNECT."""
    version, methods = struct.unpack("!BB", await reader.readexactly(2))
    if version != _SOCKS_VERSION:
        raise EOFError("not SOCKS 5")
    await reader.readexactly(methods)
    writer.write(b"\x05\x00")
    _, command, _, kind = struct.unpack("!BBBB", await reader.readexactly(4))
    if kind == _IPV4:
        host = str(ipaddress.IPv4Address(await reader.readexactly(4)))
    elif kind == _IPV6:
        host = str(ipaddress.IPv6Address(await reader.readexactly(16)))
    else:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("latin-1")
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    return (host.lower().rstrip(".") if command == _CONNECT_COMMAND else ""), port


def _answer(status: int) -> bytes:
    return struct.pack("!BBBB4sH", _SOCKS_VERSION, status, 0, _IPV4, b"\0\0\0\0", 0)


async def _look_up(host: str, port: int) -> list[Address]:
    if host == "localhost" or host.endswith(".localhost"):
        return [ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1")]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(_plain(str(each[4][0])) for each in found))


def _plain(text: str) -> Address:
    """Parse the address; an IPv4-mapped IPv6 address becomes IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


async def _connect(
    addresses: Sequence[Address], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    error: Exception = OSError("the name has no address")
    async with asyncio.timeout(_CONNECT_TIMEOUT):
        for address in addresses:
            try:
                return await asyncio.open_connection(str(address), port, limit=_PIECE_BYTES)
            except OSError as failed:
                error = failed
    raise error


async def _join(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    destination: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copy bytes both ways until the browser closes its side."""
    client_reader, client_writer = client
    destination_reader, destination_writer = destination
    answering = asyncio.ensure_future(_copy(destination_reader, client_writer))
    try:
        await _copy(client_reader, destination_writer)
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        await _close(destination_writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE_BYTES):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nobody answered within {_CONNECT_TIMEOUT:g} seconds"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error)
