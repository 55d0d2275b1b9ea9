"""The action server: a sandbox behind a socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Self
from urllib.parse import urlsplit

from bascule.core.contracts import Closable
from bascule.core.errors import InvalidSetting, SandboxDied
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings, ServerSettings

from .guard import SandboxGuard
from .inflight import InFlight
from .listener import Listener, bound_socket
from .plugin import ServerPlugin
from .routes import SandboxRoutes

logger = logging.getLogger(__name__)


class SandboxServer(Closable):
    """Creates a sandbox and serves it over HTTP from `start` until `aclose`.

    Stopping answers everybody who still waits, with 503 and `sandbox.died`, and then ends every
    process the sandbox started. If the server itself is killed, the keeper of its shells ends
    them, or keeps them for the next server if that was asked for (`ShellSettings.state_dir`).
    """

    def __init__(
        self,
        settings: ServerSettings,
        sandbox: SandboxSettings | None = None,
        *,
        sock: socket.socket | None = None,
        plugin: ServerPlugin | None = None,
    ) -> None:
        _ensure_key(settings.key)
        self._settings = settings
        self._sandbox_settings = sandbox
        self._socket = sock
        self._plugin = plugin
        self._view: socket.socket | None = None
        self._in_flight = InFlight()
        self._parts: tuple[Sandbox, SandboxRoutes, Listener] | None = None
        self._port = settings.port
        self._socket_path = ""
        self._closed = False

    @property
    def url(self) -> str:
        """Where clients on this machine reach it; known once started."""
        if self._socket_path:
            return f"unix:{self._socket_path}"
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(  # noqa: S104
            self._settings.host, self._settings.host
        )
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen. Raises `InvalidSetting` when the port cannot be had."""
        sock, parts = await asyncio.to_thread(self._make_parts)
        self._socket, self._parts = sock, parts
        self._socket_path = _path_of(sock)
        self._port = 0 if self._socket_path else sock.getsockname()[1]
        await parts[0].shells.restore()
        if self._plugin is not None:
            await self._plugin.start()
        await parts[2].start(sock)
        logger.info("the sandbox answers at %s", self.url)

    def keep_from_pages(self, url: str) -> None:
        """Block another server of ours, such as the hub, for pages in the agent's browser."""
        assert self._parts is not None
        parts = urlsplit(url)
        usual = 443 if parts.scheme == "https" else 80
        self._parts[0].keep_from_pages(parts.hostname or "", parts.port or usual)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._in_flight.end_all(SandboxDied("The sandbox is stopping"))
        if self._parts is not None:
            sandbox, routes, listener = self._parts
            routes.finish_streams()
            if self._plugin is not None:
                self._plugin.finish_streams()
            await listener.stop()
            if self._plugin is not None:
                await self._plugin.aclose()
            await sandbox.aclose()
        if self._socket is not None:
            self._socket.close()
        if self._view is not None:
            self._view.close()

    def _make_parts(self) -> tuple[socket.socket, tuple[Sandbox, SandboxRoutes, Listener]]:
        """In a thread: names are looked up, a directory is made."""
        host, port = self._settings.host, self._settings.port
        sock = self._socket or bound_socket(host, port, who="The action server")
        sock.setblocking(False)
        host, port = self._settings.host, 0 if _path_of(sock) else sock.getsockname()[1]
        if not port:
            self._view = _reserved()
            host, port = ("", 0) if self._view is None else self._view.getsockname()
        served_at = ((host, port),) if port else ()
        sandbox = Sandbox(self._sandbox_settings, served_at=served_at)
        routes = SandboxRoutes(sandbox, self._in_flight, self._settings, self._plugin)
        return sock, (
            sandbox,
            routes,
            Listener(SandboxGuard(routes, self._settings), self._settings),
        )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self


def _path_of(sock: socket.socket) -> str:
    """Of a unix socket; empty for others."""
    return sock.getsockname() if sock.family == socket.AF_UNIX else ""


def _reserved() -> socket.socket | None:
    """A loopback address that stands for a server on a unix socket where one is named by host and
    port: an agent's browser is shown files at its `/view`. Nobody listens there, and nobody else
    can. None in a network without loopback."""
    try:
        return bound_socket("127.0.0.1", 0, who="The action server")
    except InvalidSetting:
        return None


def _ensure_key(key: str) -> None:
    if not key:
        raise InvalidSetting(
            "The action server does not start without a key: whoever can reach it can run "
            "programs. Set SESSION_API_KEY to a long random text"
        )
    if not (key.isascii() and key.isprintable()) or key != key.strip():
        raise InvalidSetting("The key has to be printable ASCII without spaces around it")
