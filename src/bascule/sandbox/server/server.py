"""The action server: serves one sandbox over HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from bascule.core.contracts import Startable
from bascule.core.errors import InvalidSetting, SandboxDied
from bascule.core.tracing import Tracing
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.serving.listener import Listener
from bascule.serving.sockets import bound_socket, local_url

from .guard import SandboxGuard
from .inflight import InFlight
from .replies import error_body
from .routes import SandboxRoutes

if TYPE_CHECKING:
    from .plugin import ServerPlugin

logger = logging.getLogger(__name__)


class SandboxServer(Startable):
    """Creates a sandbox and serves it over HTTP from `start` until `aclose`.

    Stopping answers all pending requests with 503 and `sandbox.died`, and then ends every process
    the sandbox started. If the server itself is killed, a supervisor process, the keeper, ends the
    shells and their programs. With `ShellSettings.state_dir`, the keeper leaves them running for
    the next server.
    """

    def __init__(
        self,
        settings: ServerSettings,
        sandbox: SandboxSettings | None = None,
        *,
        sock: socket.socket | None = None,
        plugin: ServerPlugin | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`tracing`: makes a span of each action."""
        _ensure_key(settings.key)
        self._settings = settings
        self._sandbox_settings = sandbox
        self._socket = sock
        self._plugin = plugin
        self._tracing = tracing
        self._view_port_holder: socket.socket | None = None
        self._in_flight = InFlight()
        self._parts: tuple[Sandbox, SandboxRoutes, Listener] | None = None
        self._port = settings.port
        self._socket_path = ""
        self._closed = False

    @property
    def url(self) -> str:
        """The URL for clients on this machine; known once the server has started."""
        if self._socket_path:
            return f"unix:{self._socket_path}"
        return local_url(self._settings.host, self._port)

    async def start(self) -> None:
        """Create the sandbox and listen. Raises `InvalidSetting` if the port is not available."""
        sock, parts = await asyncio.to_thread(self._make_parts)
        self._socket, self._parts = sock, parts
        self._socket_path = _path_of(sock)
        self._port = 0 if self._socket_path else sock.getsockname()[1]
        await parts[0].shells.restore()
        if self._plugin is not None:
            await self._plugin.start()
        await parts[2].start(sock)
        logger.info("the sandbox answers at %s", self.url)

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
        if self._view_port_holder is not None:
            self._view_port_holder.close()

    def _make_parts(self) -> tuple[socket.socket, tuple[Sandbox, SandboxRoutes, Listener]]:
        """Runs in a thread, because it resolves host names and creates a directory."""
        host, port = self._settings.host, self._settings.port
        sock = self._socket or bound_socket(host, port, who="The action server")
        sock.setblocking(False)
        served_at: tuple[tuple[str, int], ...]
        if not _path_of(sock):
            served_at = ((host, sock.getsockname()[1]),)
        else:
            self._view_port_holder = _reserve_loopback_port()
            served_at = (self._view_port_holder.getsockname(),) if self._view_port_holder else ()
        sandbox = Sandbox(self._sandbox_settings, served_at=served_at)
        routes = SandboxRoutes(
            sandbox, self._in_flight, self._settings, self._plugin, tracing=self._tracing
        )
        guarded = SandboxGuard(routes, self._settings)
        listener = Listener(guarded, self._settings, encode_error=error_body)
        return sock, (sandbox, routes, listener)


def _path_of(sock: socket.socket) -> str:
    """Return the path of a unix socket; empty for other sockets."""
    return sock.getsockname() if sock.family == socket.AF_UNIX else ""


def _reserve_loopback_port() -> socket.socket | None:
    """Reserve a loopback port for the URL of `/view`, if the server listens on a unix socket.

    The agent's browser answers this URL itself, so nothing listens on the port. The open socket
    only prevents other programs from using it. Returns None in a network without loopback.
    """
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
        raise InvalidSetting("The key must be printable ASCII without spaces around it")
