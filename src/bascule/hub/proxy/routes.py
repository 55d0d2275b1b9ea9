"""Maps endpoints of sessions to their servers and owners."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bascule.core.errors import TargetUnreachable
from bascule.hub.identity import Identity

from .endpoints import SessionEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamServer:
    """A server of a session: at the unix socket `socket`, or at `host` and `port`."""

    socket: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    uid: int | None = None
    """User id that the server behind `socket` must have. None: any."""
    keeps_prefix: bool = False
    """Whether the server gets paths with its base path. If not, the proxy removes the base path."""
    is_sandboxed: bool = True
    """Whether the app's pages get an opaque origin; an app can opt out."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers added to each request; they replace the client's. Names are in lower case."""

    @property
    def label(self) -> str:
        """The server's name in error pages, without the hub's own paths."""
        return self.socket.stem if self.socket is not None else f"{self.host}:{self.port}"


def socket_path(run_dir: Path, endpoint: SessionEndpoint) -> Path:
    """The socket at which a session's server must listen for nginx to find it."""
    name = f"app{endpoint.n}" if endpoint.kind == "apps" else endpoint.kind
    return run_dir / endpoint.session_id / f"{name}.sock"


class ProxyRoutes(Protocol):
    """Finds owners and servers of endpoints for the proxy. The hub's sessions implement it."""

    async def owner(self, endpoint: SessionEndpoint) -> str | None:
        """The owner; None if there is no such endpoint. Starts nothing."""
        ...

    async def other_users(self, endpoint: SessionEndpoint) -> Collection[str]:
        """Users other than the owner who may use the endpoint's session."""
        ...

    async def audit_visit(self, who: Identity, endpoint: SessionEndpoint) -> None:
        """Write an audit entry if `who` does not own the endpoint. Called before each request of
        somebody with access passes."""
        ...

    async def target(self, endpoint: SessionEndpoint, *, is_visit: bool) -> UpstreamServer:
        """The server. Called only after the request's sender was found to have access.

        With `is_visit` it may start a server that is not running. Raises a `BasculeError` if the
        server is not available.
        """
        ...


class MemoryRoutes:
    """Routes held in memory."""

    def __init__(self) -> None:
        self._routes: dict[SessionEndpoint, tuple[str, UpstreamServer]] = {}

    def set(self, endpoint: SessionEndpoint, target: UpstreamServer, *, owner: str) -> None:
        self._routes[endpoint] = owner, target

    def remove(self, endpoint: SessionEndpoint) -> None:
        self._routes.pop(endpoint, None)

    async def owner(self, endpoint: SessionEndpoint) -> str | None:
        found = self._routes.get(endpoint)
        if found is None:
            return None
        owner, _ = found
        return owner

    async def other_users(self, endpoint: SessionEndpoint) -> Collection[str]:  # noqa: ARG002
        return ()

    async def audit_visit(self, who: Identity, endpoint: SessionEndpoint) -> None: ...

    async def target(self, endpoint: SessionEndpoint, *, is_visit: bool) -> UpstreamServer:  # noqa: ARG002
        found = self._routes.get(endpoint)
        if found is None:
            raise TargetUnreachable(f"{endpoint.path} no longer exists")
        _, target = found
        return target
