"""The HTTP listener: uvicorn's HTTP protocol without its periodic tick.

uvicorn's own `Server` wakes ten times a second to look at flags. Here nothing runs while nobody
asks. What uvicorn leaves open is closed: a head has a size and a time, a body a time, and an
endpoint can learn at once that its client went away.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, Protocol

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from bascule.core.errors import BasculeError, InvalidRequest, InvalidSetting, MessageTooLarge

from .replies import App, Message, error_body

CONNECTION = "bascule.connection"
"""Where a request's scope holds its `Connection`."""

_ATTEMPTS = 20
"""Free ports that are tried until one is free on both loopback addresses."""
_LINGER = 1.0
"""Seconds in which a client that was refused may take its answer and hang up."""


class ListenerSettings(Protocol):
    """Limits and timeouts of a listener."""

    @property
    def max_head(self) -> int: ...
    @property
    def request_timeout(self) -> float: ...
    @property
    def keep_alive(self) -> float: ...
    @property
    def stop_grace(self) -> float: ...


def bound_socket(host: str, port: int, *, who: str) -> socket.socket:
    """A socket for `who` to listen on. Raises `InvalidSetting` with what to ask for instead."""
    try:
        return _bound(host, port)
    except (OSError, OverflowError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise InvalidSetting(
            f"{who} cannot listen on {host}:{port}: {said}. {_way_out(error)}"
        ) from error


def loopback_twin(sock: socket.socket) -> socket.socket | None:
    """A socket on the same port of the other loopback address, ::1 beside 127.0.0.1.

    Names below `localhost` stand for both, and browsers differ in which they try first: whoever
    else held the other would be sent our visitors, and their cookies. None: the machine has no
    such address, or `sock` has both already. Raises `OSError` when somebody else holds it.
    """
    host, port = sock.getsockname()[:2]
    is_v6 = sock.family == socket.AF_INET6
    is_dual = is_v6 and not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    if host == "::" and is_dual:
        return None
    if host not in ("127.0.0.1", "0.0.0.0", "::1", "::"):  # noqa: S104 - compared with
        return None
    other, family = ("127.0.0.1", socket.AF_INET) if is_v6 else ("::1", socket.AF_INET6)
    try:
        twin = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # a kernel without IPv6
        return None
    try:
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            twin.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        twin.bind((other, port))
    except BaseException as error:
        twin.close()
        if isinstance(error, OSError) and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return None
        raise
    return twin


def bound_pair(host: str, port: int, *, who: str) -> list[socket.socket]:
    """As `bound_socket`, with its `loopback_twin` if there is one. A free port is free on both."""
    for attempt in range(_ATTEMPTS):
        sock = bound_socket(host, port, who=who)
        try:
            twin = loopback_twin(sock)
        except OSError as error:
            sock.close()
            if port or attempt + 1 == _ATTEMPTS:
                raise InvalidSetting(
                    f"{who} cannot listen on port {port} of both 127.0.0.1 and [::1]: another "
                    "program has it on one of them, and would be sent our visitors. "
                    + _way_out(error)
                ) from error
        else:
            return [sock] if twin is None else [sock, twin]
    raise AssertionError("unreachable")


def _bound(host: str, port: int) -> socket.socket:
    info = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = info[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _way_out(error: Exception) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return "It is no name this machine knows; 127.0.0.1 is the machine itself"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return "It is no address of this machine; 0.0.0.0 stands for all it has"
    return "Port 0 takes a free one"


class Listener:
    """Serves `app` on a socket from `start` until `stop`. The hub has one too."""

    def __init__(
        self,
        app: App,
        settings: ListenerSettings,
        *,
        max_frame: int = 64 << 10,
        ping_interval: float | None = 20.0,
        connection: Callable[..., Connection] | None = None,
        max_connections: int | None = None,
    ) -> None:
        """`max_connections`: that are open at a time; more are closed at once. None: any."""
        self._settings = settings
        self._max_connections = max_connections
        self._make = connection or Connection
        self._config = Config(
            app,
            http=Connection,
            ws=WebSocket,
            ws_max_size=max_frame,
            ws_per_message_deflate=False,
            ws_ping_interval=ping_interval,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # a float will do
        )
        self._config.load()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []

    async def start(self, *socks: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for sock in socks:
            is_unix = sock.family == socket.AF_UNIX
            create = loop.create_unix_server if is_unix else loop.create_server
            self._servers.append(await create(self._connection, sock=sock, backlog=2048))

    async def stop(self) -> None:
        """Accept no more, let answers under way finish within the grace, close everything."""
        if not self._servers:
            return
        for server in self._servers:
            server.close()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        if tasks := set(self._state.tasks):
            _, late = await asyncio.wait(tasks, timeout=self._settings.stop_grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        for server in self._servers:
            await server.wait_closed()

    def _connection(self) -> asyncio.Protocol:
        most = self._max_connections
        if most is not None and len(self._state.connections) >= most:
            return _Refusing()
        return self._make(
            config=self._config,
            server_state=self._state,
            app_state={},
            max_head=self._settings.max_head,
            timeout=self._settings.request_timeout,
        )


class _Refusing(asyncio.Protocol):
    """A connection beyond the limit; it is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]  # every stream's transport has it


class Connection(HttpToolsProtocol):
    """One client's connection."""

    when_lost: Callable[[], None] | None = None
    """Called once if the client goes away; an endpoint sets it while it works, and resets it."""

    def __init__(self, *args: Any, max_head: int, timeout: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger(f"{__name__}.protocol")
        self.logger.setLevel(logging.ERROR)  # what strangers send is not worth a warning
        self._max_head = max_head
        self._timeout = timeout
        self._head_bytes = 0
        self._head_tail = b""
        """The last bytes that came of it: its end may come in two pieces."""
        self._in_head = False
        self._in_request = False
        self._is_over = False
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Joining(transport, self.loop))  # type: ignore[arg-type]
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio does this too, but not for every listening socket that may be handed in; an
            # answer of two writes would wait 40 ms for the client's acknowledgement of the first.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._is_in_body:
            self._expect_nothing()  # a body has time from piece to piece, a head once for all
        elif self._is_too_long(data):
            self._refuse_head()
            return
        self._feed(data)
        self._look_ahead(data)

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

    def on_upgrade(self, rest: bytes) -> None:  # noqa: ARG002 - of use to those who build on it
        """The head of a request to change protocols is read; `rest` came behind it."""
        if self._should_upgrade():
            self.handle_websocket_upgrade()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer's fields were checked by nobody, and are no headers
            super().on_header(name, value)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]  # ASGI allows more keys
        self._in_head = self._in_request = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self.end_head()
        super().on_headers_complete()

    def end_head(self) -> None:
        """Note that a head is complete, and with it the time it had."""
        self._in_head = False
        self._expect_nothing()

    def on_message_complete(self) -> None:
        self._in_request = False
        super().on_message_complete()
        # Reading goes on after a large body too: only so is a client that leaves noticed.
        self.flow.resume_reading()
        if self.timeout_keep_alive_task is None:
            self._expect_next()  # it may have been answered before its body had come

    def handle_websocket_upgrade(self) -> None:
        self._in_request = False
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._end_with(400, InvalidRequest(msg))

    def _is_too_long(self, data: bytes) -> bool:
        """Whether a head begins or goes on here and does not end within what it may have."""
        before, tail = (self._head_bytes, self._head_tail) if self._in_head else (0, b"")
        left = self._max_head - before
        return len(data) > left and (tail + data[:left]).find(b"\r\n\r\n") < 0

    def _look_ahead(self, data: bytes) -> None:
        """Have the time begin that what is missing yet may take."""
        if self._is_over:
            return
        if self._in_head:
            self._head_bytes += len(data)
            self._head_tail = data[-3:]
        if self._in_head and self._head_bytes > self._max_head:
            self._refuse_head()
        elif self._in_request and self._patience is None:
            self._expect_more()
        elif not self._in_request and self.timeout_keep_alive_task is None:
            self._expect_next()

    def _refuse_head(self) -> None:
        error = MessageTooLarge(f"The request's head is larger than {self._max_head} bytes")
        self._end_with(431, error)

    def _expect_next(self) -> None:
        """Have the time to be idle begin, if there was an answer and nothing is under way."""
        cycle: Any = self.cycle  # there is none before a request, nor for a WebSocket's handshake
        if cycle and cycle.response_complete:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _expect_more(self) -> None:
        if not self.transport.is_closing():
            self._patience = self.loop.call_later(self._timeout, self._give_up)

    def _expect_nothing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if self.flow.read_paused:  # it is us who do not read
            self._expect_more()
        elif self._is_in_body and self.cycle.response_started:
            self.transport.close()
        else:
            error = InvalidRequest(f"No complete request came within {self._timeout:g} seconds")
            self._end_with(408, error)

    def _end_with(self, status: int, error: BasculeError) -> None:
        cycle: Any = self.cycle
        if cycle and not cycle.response_complete and not self._is_in_body:
            # What came behind a request is wrong; a word about it now would fall into its answer.
            cycle.keep_alive = False
            self._is_over = True
            self._expect_nothing()
            return
        body = error_body(error)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.linger()

    def flush(self) -> None:
        """Send the head of an answer that still waits for what follows it."""
        self.transport.flush()  # type: ignore[attr-defined]  # it is a Joining

    def linger(self) -> None:
        """Close, and let the client read its answer.

        Closing at once, with bytes of the request unread, would reset the connection, and the
        client might never see the answer. So it is told that no more comes, and hangs up itself.
        """
        try:
            self.transport.write_eof()
        except OSError:  # it has hung up already, which is not told yet
            self.transport.abort()
        self.flow.resume_reading()
        self._is_over = True
        self._expect_nothing()
        self._patience = self.loop.call_later(_LINGER, self.transport.abort)


class WebSocket(WebSocketsSansIOProtocol):
    """One client's WebSocket. It logs no connect or disconnect; its endpoint may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger(f"{__name__}.websocket")
        self.logger.setLevel(logging.ERROR)  # strangers could fill the log with what they try
        self.conn.logger = self.logger

    async def send(self, message: Message) -> None:  # type: ignore[override]
        await super().send(message)  # type: ignore[arg-type]
        # A handshake that was refused with an answer is over too; uvicorn takes it for forgotten.
        self.handshake_complete = self.handshake_complete or self.close_sent


class Joining:
    """A transport that sends the head of an answer together with what follows it at once.

    The protocol writes the two apart, and a system call for each was a tenth of the cost of a
    short command. A head that nothing follows goes out with the loop's next turn.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._flushing: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        if self._flushing is not None:
            head = self._take_head()
            if len(data) > _JOINED:
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


_JOINED = 64 << 10
"""Bytes of content up to which copying it behind the head is cheaper than a second call."""
