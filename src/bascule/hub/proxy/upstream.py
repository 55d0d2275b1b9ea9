"""Connections to the servers of sessions: checked by user id, and pooled for later requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from bascule.core.errors import TargetTimedOut, TargetUnreachable
from bascule.link.unix_socket import connect_to

from .routes import UpstreamServer

_MAX_BUFFERED_BYTES: Final = 256 << 10
"""Buffered bytes for a slow reader above which the other side is paused."""
_MAX_IDLE_CONNECTIONS: Final = 64
"""Maximum number of idle connections to one target."""


class UpstreamReceiver(Protocol):
    """Receives the bytes and events of a connection to a session's server."""

    def from_target(self, data: bytes) -> None: ...
    def target_lost(self) -> None: ...
    def target_is_full(self) -> None: ...
    def target_is_ready(self) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """One connection to a session's server. `receiver` uses it until it is released or closed."""

    def __init__(self, target: UpstreamServer) -> None:
        self.target = target
        self.transport: asyncio.Transport
        self.sink: Callable[[bytes], object] = self._on_unrequested
        """Called with all bytes that the server sends."""
        self.receiver: UpstreamReceiver | None = None
        self.is_full = False
        self.idle_since = 0.0
        """Loop time at which the connection was returned to the pool."""
        self._writable: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]  # uvloop has its own class
        self.transport.set_write_buffer_limits(high=_MAX_BUFFERED_BYTES)

    def assign(self, receiver: UpstreamReceiver) -> None:
        self.receiver = receiver
        self.sink = receiver.from_target

    def write(self, data: bytes) -> None:
        """Send bytes. No effect if the connection is lost; `receiver.target_lost` reports that."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.sink(data)

    def eof_received(self) -> None:
        pass  # returning None closes the transport: a target that closed its side is done

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.resume_writing()  # wakes `drain`
        if self.receiver is not None:
            self.receiver.target_lost()

    def pause_writing(self) -> None:
        self.is_full = True
        if self.receiver is not None:
            self.receiver.target_is_full()

    def resume_writing(self) -> None:
        self.is_full = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self.receiver is not None:
            self.receiver.target_is_ready()

    async def drain(self) -> None:
        """Wait until the server accepts more bytes or the connection is lost."""
        if self.is_full and not self.transport.is_closing():
            self._writable = asyncio.get_running_loop().create_future()
            await self._writable

    def release(self) -> None:
        """Detach the receiver."""
        self.receiver = None
        self.sink = self._on_unrequested

    def close(self, *, abruptly: bool) -> None:
        """Close the connection.

        `abruptly`: abort it, so that the server does not consider the request complete.
        """
        self.release()
        if abruptly:
            self.transport.abort()
        else:
            self.transport.close()

    def _on_unrequested(self, data: bytes) -> None:  # noqa: ARG002
        self.transport.abort()  # unrequested bytes must not become the next request's response


class UpstreamPool:
    """Opens connections to servers, and keeps idle connections for later requests."""

    def __init__(self, *, connect_timeout: float, idle_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self._idle: dict[UpstreamServer, list[UpstreamConnection]] = {}
        """Per server, the most recently returned connection last."""
        self._sweep_timer: asyncio.TimerHandle | None = None

    def take(self, target: UpstreamServer) -> UpstreamConnection | None:
        """An idle connection, if there is one. The server may have closed it already."""
        idle = self._idle.get(target)
        while idle:
            upstream = idle.pop()
            if not upstream.transport.is_closing():
                return upstream
        return None

    def give_back(self, upstream: UpstreamConnection, *, only_if_none_idle: bool = False) -> None:
        """Keep the connection for a later request, or close it if there are enough idle ones.

        `only_if_none_idle` is for connections of requests that never take one from the pool:
        otherwise each of them would leave another idle connection.
        """
        upstream.release()
        upstream.transport.resume_reading()
        idle = self._idle.setdefault(upstream.target, [])
        max_idle = 1 if only_if_none_idle else _MAX_IDLE_CONNECTIONS
        if len(idle) >= max_idle or upstream.transport.is_closing():
            upstream.transport.close()
            return
        loop = asyncio.get_running_loop()
        upstream.idle_since = loop.time()
        idle.append(upstream)
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._idle_timeout, self._sweep)

    async def connect(self, target: UpstreamServer) -> UpstreamConnection:
        """A new connection. Raises `TargetUnreachable` or `TargetTimedOut`."""
        try:
            async with asyncio.timeout(self._connect_timeout):
                return await _connect(target)
        except TimeoutError:
            raise TargetTimedOut(
                f"{target.label} accepted no connection within {self._connect_timeout:g} seconds"
            ) from None
        except OSError as error:
            raise TargetUnreachable(f"{_error_text(error)} ({target.label})") from error

    def close(self) -> None:
        for idle in self._idle.values():
            for upstream in idle:
                upstream.transport.abort()
        self._idle.clear()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    def _sweep(self) -> None:
        """Close connections idle for longer than `idle_timeout`; runs again while any are left."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._idle_timeout
        for target, idle in tuple(self._idle.items()):
            kept = [upstream for upstream in idle if upstream.idle_since > oldest]
            for upstream in idle[: len(idle) - len(kept)]:
                upstream.transport.close()
            if kept:
                self._idle[target] = kept
            else:
                del self._idle[target]
        self._sweep_timer = (
            loop.call_later(self._idle_timeout / 2, self._sweep) if self._idle else None
        )


async def _connect(target: UpstreamServer) -> UpstreamConnection:
    loop = asyncio.get_running_loop()
    if target.socket is None:
        _, upstream = await loop.create_connection(
            lambda: UpstreamConnection(target), target.host, target.port
        )
        return upstream
    sock = await connect_to(target.socket, uid=target.uid)
    try:
        _, upstream = await loop.create_unix_connection(
            lambda: UpstreamConnection(target), sock=sock
        )
    except BaseException:
        sock.close()
        raise
    return upstream


def _error_text(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "Nothing listens there: the program has not started, or has ended"
        case ConnectionRefusedError():
            return "Connections are refused: the program there has ended or is still starting"
        case PermissionError() if error.errno is None:
            return f"Not connected: {error}"
        case _:
            return f"No connection: {error.strerror or error}"
