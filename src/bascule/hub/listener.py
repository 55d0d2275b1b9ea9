"""The hub's socket: uvicorn's protocols without its loop of ticks, as the action server has it."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from uvicorn import Config
from uvicorn.server import ServerState

from bascule.sandbox.server.listener import Connection

from .replies import App
from .settings import HubSettings

_OVERHEAD: Final = 1 << 16
"""Bytes of a frame that are not the message."""


class Listener:
    """Serves `app` on a socket from `start` until `stop`."""

    def __init__(self, app: App, settings: HubSettings) -> None:
        self._settings = settings
        self._config = Config(
            app,
            http=Connection,
            ws="websockets-sansio",
            ws_max_size=settings.message_bytes + _OVERHEAD,
            ws_per_message_deflate=False,
            ws_ping_interval=None,  # Engine.IO has its own
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
        self._server: asyncio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=sock, backlog=2048)

    async def stop(self) -> None:
        """Accept no more, let answers under way finish within the grace, close everything."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        if tasks := set(self._state.tasks):
            _, late = await asyncio.wait(tasks, timeout=self._settings.stop_grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await self._server.wait_closed()

    def _connection(self) -> Connection:
        return Connection(
            config=self._config,
            server_state=self._state,
            app_state={},
            max_head=self._settings.max_head,
            timeout=self._settings.request_timeout,
        )
