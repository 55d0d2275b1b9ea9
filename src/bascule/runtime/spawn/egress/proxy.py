"""An HTTP proxy on a unix socket: the only network access of a session with egress `proxy`.

The proxy serves `CONNECT` and plain requests. It resolves a name once, checks the addresses and
connects to a checked address. So a name that resolves differently a moment later has no effect. The
proxy serves one request per connection, so that a second request cannot go to a host that was not
checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from bascule.core.contracts import Closable
from bascule.serving.sockets import stop_accepting

from .request import ProxyRequest, parse_request
from .rules import EgressRules

logger = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_MAX_HEAD_BYTES: Final = 64 << 10
_HEAD_TIMEOUT: Final = 20.0
_CONNECT_TIMEOUT: Final = 15.0
_MAX_PIECE_BYTES: Final = 64 << 10
MAX_CONNECTIONS: Final = 256
"""Connections that one session may have at a time. Each connection needs two descriptors of the
hub."""
_MAX_REFUSED: Final = 16
"""Connections above the maximum that get an answer with the reason; further ones are closed."""


class _Refused(Exception):
    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class EgressProxy(Closable):
    """Serves one session's socket from `open` until `aclose`."""

    def __init__(
        self,
        path: Path,
        rules: EgressRules,
        resolve: Resolve | None = None,
        *,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._path = path
        self._max_connections = max_connections
        self._rules = rules
        self._resolve = resolve or _look_up
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, and replace a socket that an earlier hub left."""
        await asyncio.to_thread(_remove_stale_socket, self._path)
        self._server = await asyncio.start_unix_server(
            self._on_client, self._path, limit=_MAX_HEAD_BYTES
        )
        # Everyone who sees the socket may connect: only one sandbox sees its directory.
        await asyncio.to_thread(self._path.chmod, 0o666)

    async def aclose(self) -> None:
        if self._server is None:
            return
        await stop_accepting(self._server)
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await asyncio.to_thread(self._path.unlink, missing_ok=True)
        self._server = None

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            # Read the request of a few clients too many before refusing them: a connection that
            # is closed with unread bytes is reset, and the client would not see the reason.
            if len(self._clients) <= self._max_connections + _MAX_REFUSED:
                await self._serve(
                    reader, writer, is_full=len(self._clients) > self._max_connections
                )
        except asyncio.CancelledError:
            return  # cancelled by `aclose`; asyncio's stream callback would log it
        except (OSError, asyncio.IncompleteReadError):
            logger.debug("a connection of a session failed", exc_info=True)
        finally:
            self._clients.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_full: bool
    ) -> None:
        try:
            request = await _read_head(reader)
            if is_full:
                raise _too_many(self._max_connections)
            server_reader, server_writer = await self._connect(request)
        except _Refused as refused:
            await _refuse(writer, refused)
            return
        with contextlib.closing(server_writer):
            if request.head:
                server_writer.write(request.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _join((reader, writer), (server_reader, server_writer), request.body)

    async def _connect(
        self, request: ProxyRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = request.host, request.port
        if not self._rules.allows_name(host, port):
            raise _Refused(
                "403 Forbidden", f"This session may not reach {host}:{port}: see egress.domains"
            )
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                found = await self._resolve(host, port)
                allowed = [each for each in found if self._rules.allows_address(each)]
                if not allowed:
                    raise _Refused(
                        "403 Forbidden", f"{host} has no address that sessions may reach"
                    )
                return await _first_that_answers(allowed, port)
        except OSError as error:  # of the name lookup, the connection or the timeout
            reason = f"{host}:{port} cannot be reached: {str(error) or 'it took too long'}"
            raise _Refused("502 Bad Gateway", reason) from error


async def _refuse(writer: asyncio.StreamWriter, refused: _Refused) -> None:
    body = (refused.reason + "\n").encode()
    writer.write(
        f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    await writer.drain()


def _too_many(limit: int) -> _Refused:
    reason = f"This session has {limit} connections to the network, the maximum"
    return _Refused("503 Service Unavailable", reason)


async def _read_head(reader: asyncio.StreamReader) -> ProxyRequest:
    try:
        async with asyncio.timeout(_HEAD_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError, TimeoutError) as error:
        raise _Refused("400 Bad Request", "No complete request arrived") from error
    try:
        return parse_request(head)
    except ValueError as error:
        raise _Refused("400 Bad Request", f"This is not a proxy request: {error}") from error


async def _first_that_answers(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return await asyncio.open_connection(address, port)
    return await asyncio.open_connection(addresses[-1], port)


async def _join(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    body: int | None,
) -> None:
    """Copy bytes both ways until the server has sent everything, or a connection breaks.

    `body`: the maximum number of bytes from the client; None: no maximum.
    """
    (client_reader, client_writer), (server_reader, server_writer) = client, server
    async with asyncio.TaskGroup() as both:
        to_server = both.create_task(_copy(client_reader, server_writer, body))
        await _copy(server_reader, client_writer, None)
        to_server.cancel()


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None
) -> None:
    with contextlib.suppress(ConnectionError):
        while limit is None or limit > 0:
            piece = await reader.read(
                _MAX_PIECE_BYTES if limit is None else min(_MAX_PIECE_BYTES, limit)
            )
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
            limit = None if limit is None else limit - len(piece)
        if limit is None and writer.can_write_eof():
            writer.write_eof()


async def _look_up(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _remove_stale_socket(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    path.unlink(missing_ok=True)
