"""One client's connection: uvicorn's HTTP protocol, with limits.

Adds to uvicorn: a size limit and a timeout for a request's head, a timeout for its body, and a
callback that runs as soon as the client disconnects.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import httptools

from bascule.core.errors import BasculeError, InvalidRequest, MessageTooLarge
from bascule.serving.asgi import Message

from .refusals import EncodeError
from .uvicorn_internals import STATUS_LINE, HttpToolsProtocol, WebSocketsSansIOProtocol

CONNECTION = "bascule.connection"
"""Key of the request's `Connection` in its ASGI scope."""

_LINGER_SECONDS = 1.0
"""Seconds a client has to read an error response and disconnect, before the server aborts."""


class Connection(HttpToolsProtocol):
    """One client's connection."""

    when_lost: Callable[[], None] | None = None
    """Called once if the client disconnects. An endpoint sets it while it works, then resets it."""

    def __init__(
        self,
        *args: Any,
        max_head: int,
        timeout: float,
        encode_error: EncodeError,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._encode_error = encode_error
        self.logger = logging.getLogger(f"{__name__}.protocol")
        self.logger.setLevel(logging.ERROR)  # invalid requests must not fill the log
        self._max_head = max_head
        self._timeout = timeout
        self._head_bytes = 0
        self._head_tail = b""
        """The last three bytes of the head so far: its final CRLFCRLF may arrive in two pieces."""
        self._in_head = False
        self._in_request = False
        self._is_over = False
        """Whether all further bytes of the client are ignored."""
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(HeadJoiningTransport(transport, self.loop))  # type: ignore[arg-type]
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio sets TCP_NODELAY too, but not on every listening socket a caller may pass in.
            # Without it, the second write of a response waits 40 ms for the client's ACK.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_read_timer()
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._is_in_body:
            self._stop_read_timer()  # the timeout is per piece of a body, but per head as a whole
        elif self._is_too_long(data):
            self._refuse_head()
            return
        self._feed(data)
        self._restart_timers(data)

    @property
    def _is_in_body(self) -> bool:
        return self._in_request and not self._in_head

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:
            self.on_upgrade(data[upgrade.args[0] :])

    def on_upgrade(self, rest: bytes) -> None:  # noqa: ARG002 - subclasses use it
        """Handle an upgrade request whose head is complete; `rest` holds the bytes after it."""
        if self._should_upgrade():
            self.handle_websocket_upgrade()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer: no rule has checked its fields, so drop them
            return
        # A copy of uvicorn's method, to save a `super()` call for each header of each request.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]  # ASGI allows more keys
        self._in_head = self._in_request = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self.end_head()
        super().on_headers_complete()

    def end_head(self) -> None:
        """Mark the head as complete and stop its timeout."""
        self._in_head = False
        self._stop_read_timer()

    def on_message_complete(self) -> None:
        self._in_request = False
        super().on_message_complete()
        # Keep reading after a large body too: a paused transport does not notice a disconnect.
        self.flow.resume_reading()
        if self.timeout_keep_alive_task is None:
            # The response may have been sent before the body was complete.
            self._start_keep_alive_timer()

    def handle_websocket_upgrade(self) -> None:
        self._in_request = False
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._end_with(400, InvalidRequest(msg))

    def _is_too_long(self, data: bytes) -> bool:
        """Whether `data` starts or continues a head that does not end within `max_head` bytes."""
        before, tail = (self._head_bytes, self._head_tail) if self._in_head else (0, b"")
        remaining = self._max_head - before
        return len(data) > remaining and (tail + data[:remaining]).find(b"\r\n\r\n") < 0

    def _restart_timers(self, data: bytes) -> None:
        """Start the timeout for the next bytes: of this request, or of the next request."""
        if self._is_over:
            return
        if self._in_head:
            self._head_bytes += len(data)
            self._head_tail = data[-3:]
        if self._in_head and self._head_bytes > self._max_head:
            self._refuse_head()
        elif self._in_request and self._read_timer is None:
            self._start_read_timer()
        elif not self._in_request and self.timeout_keep_alive_task is None:
            self._start_keep_alive_timer()

    def _refuse_head(self) -> None:
        error = MessageTooLarge(f"The request's head is larger than {self._max_head} bytes")
        self._end_with(431, error)

    def _start_keep_alive_timer(self) -> None:
        """Start the keep-alive timeout if the last response is complete."""
        cycle: Any = self.cycle  # None before the first request and for a WebSocket handshake
        if cycle and cycle.response_complete:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _start_read_timer(self) -> None:
        if not self.transport.is_closing():
            self._read_timer = self.loop.call_later(self._timeout, self._on_read_timeout)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _on_read_timeout(self) -> None:
        if self.flow.read_paused:  # the server paused reading, so the client could not send
            self._start_read_timer()
        elif self._is_in_body and self.cycle.response_started:
            self.transport.close()
        else:
            error = InvalidRequest(f"No complete request arrived within {self._timeout:g} seconds")
            self._end_with(408, error)

    def _end_with(self, status: int, error: BasculeError) -> None:
        cycle: Any = self.cycle
        if cycle and not cycle.response_complete and not self._is_in_body:
            # The bad bytes follow a request that is still being answered. An error response now
            # would be mixed into that answer, so only close the connection after it.
            cycle.keep_alive = False
            self._is_over = True
            self._stop_read_timer()
            return
        body = self._encode_error(error)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.linger()

    def flush(self) -> None:
        """Send a response head that still waits for its body, without waiting any longer."""
        self.transport.flush()  # type: ignore[attr-defined]  # a `HeadJoiningTransport`

    def linger(self) -> None:
        """Close the sending side, and let the client read its response and disconnect.

        A full close while bytes of the request are unread would reset the connection, and the
        client might never see the response.
        """
        try:
            self.transport.write_eof()
        except OSError:  # the client has disconnected, but `connection_lost` has not run yet
            self.transport.abort()
        self.flow.resume_reading()
        self._is_over = True
        self._stop_read_timer()
        self._read_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


class WebSocket(WebSocketsSansIOProtocol):
    """One client's WebSocket. It does not log connects and disconnects; an endpoint may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger(f"{__name__}.websocket")
        self.logger.setLevel(logging.ERROR)  # invalid handshakes must not fill the log
        self.conn.logger = self.logger

    async def send(self, message: Message) -> None:  # type: ignore[override]
        await super().send(message)  # type: ignore[arg-type]
        # A handshake refused with a response is complete too. uvicorn would log an error, as if the
        # app had returned without completing the handshake.
        self.handshake_complete = self.handshake_complete or self.close_sent


class HeadJoiningTransport:
    """A transport that joins a response head and the body written right after it into one write.

    uvicorn writes head and body separately. The second system call was a tenth of the cost of a
    short command. A head with no body after it is sent in the next iteration of the event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._flushing: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        if self._flushing is not None:
            head = self._take_head()
            if len(data) > _MAX_JOINED_BODY_BYTES:
                self._transport.write(head)
            else:
                data = head + bytes(data)
            self._transport.write(data)
        elif data[:5] == b"HTTP/":
            self._head = data
            self._flushing = self._loop.call_soon(self.flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def flush(self) -> None:
        if self._flushing is not None:
            self._transport.write(self._take_head())

    def _take_head(self) -> bytes:
        assert self._flushing is not None
        self._flushing.cancel()
        self._flushing = None
        return self._head

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_MAX_JOINED_BODY_BYTES = 64 << 10
"""Largest body in bytes that is cheaper to copy behind the head than to write separately."""
