"""A client's connection to the hub: each request goes to the ASGI app or to a session's server."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from bascule.core.errors import InvalidRequest
from bascule.serving.connection import Connection

from .exchange import Exchange
from .request import RequestHead

if TYPE_CHECKING:
    from .proxy import Proxy


_KEEPALIVE_IDLE = 60
"""Seconds of silence in a tunnel before TCP keep-alive probes start."""


class ClientConnection(Connection):
    """One client connection. Requests for the app and for sessions may come in any order."""

    direct: asyncio.Transport
    """The raw transport to the client, below the transport that buffers ASGI response heads."""

    def __init__(self, *args: Any, proxy: Proxy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._proxy = proxy
        self._exchange: Exchange | None = None
        """The exchange whose response is being sent."""
        self._tunnel: Exchange | None = None
        """The exchange that upgraded the connection; it gets all further bytes."""
        self._is_proxied = False
        """Whether the request being parsed belongs to an exchange."""
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.direct = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_stall_timer()
        super().connection_lost(exc)
        if self._exchange is not None:
            self._exchange.client_left()

    def data_received(self, data: bytes) -> None:
        if self._tunnel is not None:
            self._tunnel.from_client(data)
        else:
            super().data_received(data)

    def send(self, data: bytes) -> None:
        """Write to the client if it is still connected; uvloop raises an error otherwise."""
        if not self.direct.is_closing():
            self._proxy.traffic.to_clients += len(data)
            self.direct.write(data)

    def enable_keepalive(self) -> None:
        """Enable TCP keep-alive, so that the kernel detects a vanished client within minutes."""
        sock = self.direct.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_IDLE // 4)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._exchange is not None:
            self._exchange.client_is_full()
            self._start_stall_timer()

    def resume_writing(self) -> None:
        self._cancel_stall_timer()
        super().resume_writing()
        if self._exchange is not None:
            self._exchange.client_is_ready()

    def on_headers_complete(self) -> None:
        is_upgrade = self.parser.should_upgrade()
        request = RequestHead(
            method=self.parser.get_method(),
            target=self.url,
            version=self.parser.get_http_version(),
            headers=self.headers,
            peer=self.client[0] if self.client else "",
            is_upgrade=is_upgrade,
        )
        self._is_proxied = self._proxy.claims(request)
        if not self._is_proxied:
            super().on_headers_complete()
            return
        self.end_head()
        self.scope["method"] = request.method.decode()
        previous: Any = self.cycle  # None for the first request
        keep_alive = request.version == "1.1" and self.parser.should_keep_alive()
        self.cycle = Exchange(self, self._proxy, request, keep_alive=keep_alive)
        if previous is None or previous.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_upgrade(self, rest: bytes) -> None:
        if not self._is_proxied:
            super().on_upgrade(rest)
            return
        assert isinstance(self.cycle, Exchange)
        self._in_request = False
        if self.cycle.request.is_websocket:
            self._tunnel = self.cycle
            self._tunnel.from_client(rest)

    def send_400_response(self, msg: str) -> None:
        """Answer 400, also when the parser rejects a body while its exchange is running."""
        if self._exchange is None:
            super().send_400_response(msg)
        else:
            self._is_over = True
            self._exchange.client_erred(400, InvalidRequest(msg))

    def hang_up(self) -> None:
        """Close after the last response. A client that is still sending can read it first."""
        self.pipeline.clear()
        if self._in_request and not self.transport.is_closing():
            self._in_request = False
            self.linger()
        else:
            self.transport.close()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if isinstance(cycle, Exchange):
            self._exchange = cycle
            self.flush()  # the rest of an earlier ASGI response
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._exchange = None
        super().on_response_complete()

    def shutdown(self) -> None:
        if self._tunnel is not None:
            self.transport.close()
        else:
            super().shutdown()

    def _on_read_timeout(self) -> None:
        is_awaited = self._is_in_body and not self.flow.read_paused
        if is_awaited and self._exchange is not None and self.cycle is self._exchange:
            error = InvalidRequest(f"No part of the body arrived for {self._timeout:g} seconds")
            self._exchange.client_erred(408, error)
        else:
            super()._on_read_timeout()

    def _should_upgrade(self) -> bool:
        return not self._is_proxied and super()._should_upgrade()

    def _start_stall_timer(self) -> None:
        """Start a check that the client reads at all; reading slowly is allowed."""
        timeout, size = self._proxy.settings.stall_timeout, self.direct.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(timeout, self._check_reading, size)

    def _check_reading(self, earlier_size: int) -> None:
        if self.direct.get_write_buffer_size() >= earlier_size:
            self.direct.abort()
        else:
            self._start_stall_timer()

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
