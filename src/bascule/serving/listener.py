"""The HTTP listener: uvicorn's HTTP protocol without its periodic tick.

uvicorn's own `Server` wakes ten times a second to check flags. This listener runs only when a
client connects or sends data.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bascule.serving.asgi import App

from .connection import Connection, WebSocket
from .refusals import EncodeError, encode_error
from .sockets import stop_accepting
from .uvicorn_internals import Config, ServerState


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


class Listener:
    """Serves `app` on one or more sockets from `start` until `stop`."""

    def __init__(
        self,
        app: App,
        settings: ListenerSettings,
        *,
        max_frame: int = 64 << 10,
        ping_interval: float | None = 20.0,
        connection: Callable[..., Connection] | None = None,
        max_connections: int | None = None,
        encode_error: EncodeError = encode_error,
    ) -> None:
        """`max_connections`: limit of open connections; further ones are closed at once. None: no
        limit. `encode_error`: makes the body of errors for requests that never reach the app."""
        self._settings = settings
        self._encode_error = encode_error
        self._max_connections = max_connections
        self._new_protocol = connection or Connection
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
            timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # a float works too
        )
        self._config.load()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._is_stopping = False

    async def start(self, *socks: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for sock in socks:
            is_unix = sock.family == socket.AF_UNIX
            create = loop.create_unix_server if is_unix else loop.create_server
            # In two steps: if this is cancelled while the server starts, `stop` still closes it.
            server = await create(self._connection, sock=sock, backlog=2048, start_serving=False)
            self._servers.append(server)
            await server.start_serving()

    async def stop(self) -> None:
        """Stop accepting, let running requests finish within `stop_grace`, close everything."""
        if not self._servers:
            return
        self._is_stopping = True
        for server in self._servers:
            await stop_accepting(server)
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
        limit = self._max_connections
        is_full = limit is not None and len(self._state.connections) >= limit
        if is_full or self._is_stopping:
            return _RefusedConnection()
        return self._new_protocol(
            config=self._config,
            server_state=self._state,
            app_state={},
            max_head=self._settings.max_head,
            timeout=self._settings.request_timeout,
            encode_error=self._encode_error,
        )


@contextmanager
def stop_signals(stopped: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
    """In the `with` block, SIGTERM and SIGINT set the event instead of ending the process."""
    stopped = stopped or asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _RefusedConnection(asyncio.Protocol):
    """A connection above the limit, or during a stop. It is aborted at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]  # every stream transport has `abort`
