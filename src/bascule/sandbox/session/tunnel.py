"""Forwards connections between sockets, so that servers in a sandbox are reachable from outside.

A session's apps listen on TCP in their own network namespace and get a unix socket; the hub's unix
socket gets a loopback port in the session. Data is passed on without being parsed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from bascule.core.contracts import Closable
from bascule.serving.sockets import bind_tcp, stop_accepting

logger = logging.getLogger(__name__)

Connect = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connects a protocol, which the given factory creates; raises `OSError`."""

_MAX_CONNECTIONS: Final = 1024
_CONNECT_TIMEOUT: Final = 15.0
_MAX_BUFFERED: Final = 256 << 10
"""Maximum bytes buffered for a slow reader. Beyond that, we stop reading from the other side."""
_BACKLOG: Final = 256
"""Maximum number of connections that wait to be accepted."""


def to_unix(path: Path) -> Connect:
    return lambda make: asyncio.get_running_loop().create_unix_connection(make, str(path))


def to_tcp(*addresses: tuple[str, int]) -> Connect:
    """Connect to the first address that accepts."""

    async def connect(make: Callable[[], asyncio.Protocol]) -> object:
        loop = asyncio.get_running_loop()
        failed: OSError | None = None
        for host, port in addresses:
            try:
                return await loop.create_connection(make, host, port)
            except OSError as error:
                failed = failed or error
        raise failed or OSError("there is no address to connect to")

    return connect


class LoopbackPort:
    """A loopback port that is reserved before anything listens on it.

    The agent's browser must know the port when it starts, because it blocks the port for pages. If
    possible, the port is the same after a restart, because browsers store data by address.
    """

    def __init__(self, port_file: Path) -> None:
        """`port_file`: file that stores the port. Blocks the calling thread. Raises `OSError` if
        the network has no loopback."""
        self._reservation = _bind_stored_port(port_file)
        self.port: int = self._reservation.getsockname()[1]
        port_file.write_text(str(self.port))

    def listen(self) -> socket.socket:
        """Return a new listening socket. The caller closes it before the next call. Blocks the
        calling thread."""
        listening = bind_tcp("127.0.0.1", self.port)
        listening.listen(_BACKLOG)
        return listening

    def close(self) -> None:
        self._reservation.close()


def _bind_stored_port(port_file: Path) -> socket.socket:
    """Bind the port in the file; any free port if the file is missing or the port is in use."""
    with suppress(OSError, ValueError, OverflowError):
        port = int(port_file.read_text())
        with bind_tcp("127.0.0.1", port) as probe:
            probe.listen()  # fails if another program listens on the port
        return bind_tcp("127.0.0.1", port)
    return bind_tcp("127.0.0.1", 0)


class Forwarder(Closable):
    """Forwards every connection accepted on `listening`, from `start` until `aclose`.

    Applies back-pressure for slow readers, passes on end of file in each direction, and closes a
    connection that cannot be forwarded.
    """

    def __init__(
        self,
        listening: socket.socket,
        connect: Connect,
        *,
        on_refused: Callable[[], None] = lambda: None,
        on_count: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_refused`: called if the target accepts no connection. `on_count`: called with the
        number of open connections when it changes."""
        self._listening = listening
        self._connect = connect
        self._on_refused = on_refused
        self._on_count = on_count
        self._server: asyncio.Server | None = None
        self._joining: set[asyncio.Task[None]] = set()
        self._open: set[_End] = set()

    @property
    def connections(self) -> int:
        return len(self._open)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        is_unix = self._listening.family == socket.AF_UNIX
        create = loop.create_unix_server if is_unix else loop.create_server
        self._listening.setblocking(False)
        self._server = await create(self._accept, sock=self._listening, backlog=_BACKLOG)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._server is None:
            self._listening.close()
            return
        await stop_accepting(self._server)
        for task in self._joining:
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)
        for end in tuple(self._open):
            end.abort()
        await self._server.wait_closed()

    def _accept(self) -> _End:
        return _End(self._accepted, self._closed)

    def _accepted(self, end: _End) -> None:
        self._open.add(end)
        self._on_count(len(self._open))
        if len(self._open) > _MAX_CONNECTIONS:
            logger.warning("more than %d connections; one is refused", _MAX_CONNECTIONS)
            end.abort()
            return
        task = asyncio.get_running_loop().create_task(self._join(end))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    def _closed(self, end: _End) -> None:
        self._open.discard(end)
        self._on_count(len(self._open))

    async def _join(self, accepted: _End) -> None:
        """Connect to the target, and forward data between it and the accepted connection."""
        target = _End(lambda _: None, lambda _: None)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await self._connect(lambda: target)
        except OSError as error:  # includes `TimeoutError`
            logger.debug("a connection could not be forwarded: %s", error)
            accepted.abort()
            self._on_refused()
            return
        except asyncio.CancelledError:
            target.abort()
            accepted.abort()
            raise
        if accepted.is_lost:
            target.abort()
        else:
            accepted.join(target)
            target.join(accepted)


class _End(asyncio.Protocol):
    """One of the two sockets of a connection. Data received here is sent to `peer`."""

    transport: asyncio.Transport

    def __init__(self, on_made: Callable[[_End], None], on_lost: Callable[[_End], None]) -> None:
        self._on_made = on_made
        self._on_lost = on_lost
        self.peer: _End | None = None
        self.is_lost = False
        self._early_data = b""
        self._has_sent_eof = False

    def join(self, peer: _End) -> None:
        self.peer = peer
        if self._early_data:
            peer.transport.write(self._early_data)
            self._early_data = b""
        if self._has_sent_eof:
            self.eof_received()
        else:
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_MAX_BUFFERED)
        self.transport.pause_reading()
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        if self.peer is None:  # the data was read before `pause_reading` took effect
            self._early_data += data
            self.transport.pause_reading()
        else:
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        """Pass on end of file. Returns True to keep this side open for writing."""
        self._has_sent_eof = True
        if self.peer is not None and not self.peer.is_lost:
            with suppress(OSError):  # the peer has disconnected; its `connection_lost` follows
                self.peer.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.peer is not None and not self.peer.is_lost:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and not self.peer.is_lost:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self.peer is not None and not self.peer.is_lost:
            # After a normal close, data buffered for the peer is still sent.
            self.peer.abort() if exc else self.peer.transport.close()
        self._on_lost(self)

    def abort(self) -> None:
        if hasattr(self, "transport"):
            self.transport.abort()
