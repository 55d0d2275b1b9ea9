"""Forwards connections between sockets, so that servers in a sandbox are reachable from outside.

A session's apps listen on TCP in a network of their own, the hub waits on a unix socket; each is
made to answer on the other kind. Nothing of what passes is read.
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

logger = logging.getLogger(__name__)

Connect = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connects the protocol it is given a maker of; raises `OSError`."""

_MOST_CONNECTIONS: Final = 1024
_CONNECT_TIMEOUT: Final = 15.0
_HELD: Final = 256 << 10
"""Bytes that wait for a slow reader before the writer at the other end has to wait too."""


def to_unix(path: Path) -> Connect:
    return lambda make: asyncio.get_running_loop().create_unix_connection(make, str(path))


def to_tcp(*addresses: tuple[str, int]) -> Connect:
    """The first of these that takes a connection."""

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

    So it can be kept from the pages of an agent's browser, which has to be told at its start. It is
    the same the next time, if it can be: a browser keeps what it knows of a place by its address.
    """

    def __init__(self, memory: Path) -> None:
        """Blocks. `memory`: the file that has the port. Raises `OSError` without loopback."""
        self._held = _bound_again(memory)
        self.port: int = self._held.getsockname()[1]
        memory.write_text(str(self.port))

    def listen(self) -> socket.socket:
        """Blocks. Each is closed before the next."""
        listening = _bound(self.port)
        listening.listen(256)
        return listening

    def close(self) -> None:
        self._held.close()


def _bound_again(memory: Path) -> socket.socket:
    with suppress(OSError, ValueError, OverflowError):
        port = int(memory.read_text())
        with _bound(port) as alone:
            alone.listen()  # fails if somebody else listens there
        return _bound(port)
    return _bound(0)


def _bound(port: int) -> socket.socket:
    """Several may be bound to one port if all say so, as long as one alone listens."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


class Forwarder(Closable):
    """Forwards every connection accepted on `listening`, from `start` until `aclose`.

    A reader that is slow makes the writer wait, one end that has said all is told to the other,
    and a connection that cannot be passed on is closed.
    """

    def __init__(
        self,
        listening: socket.socket,
        connect: Connect,
        *,
        on_refused: Callable[[], None] = lambda: None,
        on_count: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_refused`: nobody answered there. `on_count`: so many connections are open now."""
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
        self._server = await create(self._accept, sock=self._listening, backlog=256)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._server is None:
            self._listening.close()
            return
        self._server.close()
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
        if len(self._open) > _MOST_CONNECTIONS:
            logger.warning("more than %d connections; one is refused", _MOST_CONNECTIONS)
            end.abort()
            return
        task = asyncio.get_running_loop().create_task(self._join(end))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    def _closed(self, end: _End) -> None:
        self._open.discard(end)
        self._on_count(len(self._open))

    async def _join(self, here: _End) -> None:
        there = _End(lambda _: None, lambda _: None)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await self._connect(lambda: there)
        except OSError as error:  # a `TimeoutError` is one
            logger.debug("a connection could not be forwarded: %s", error)
            here.abort()
            self._on_refused()
            return
        except asyncio.CancelledError:
            there.abort()
            here.abort()
            raise
        if here.is_lost:
            there.abort()
        else:
            here.join(there)
            there.join(here)


class _End(asyncio.Protocol):
    """One of the two sockets of a connection. Data received here is sent to `peer`."""

    transport: asyncio.Transport

    def __init__(self, on_made: Callable[[_End], None], on_lost: Callable[[_End], None]) -> None:
        self._on_made = on_made
        self._on_lost = on_lost
        self.peer: _End | None = None
        self.is_lost = False
        self._early = b""
        self._has_said_all = False

    def join(self, peer: _End) -> None:
        self.peer = peer
        if self._early:
            peer.transport.write(self._early)
            self._early = b""
        if self._has_said_all:
            self.eof_received()
        else:
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_HELD)
        self.transport.pause_reading()
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        if self.peer is None:  # it was read before reading could be paused
            self._early += data
            self.transport.pause_reading()
        else:
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        """True: this end can still be written to, for as long as the other has something."""
        self._has_said_all = True
        if self.peer is not None and not self.peer.is_lost:
            with suppress(OSError):  # it has gone, and says so next
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
            # What it was given is still sent, unless this end broke.
            self.peer.abort() if exc else self.peer.transport.close()
        self._on_lost(self)

    def abort(self) -> None:
        if hasattr(self, "transport"):
            self.transport.abort()
