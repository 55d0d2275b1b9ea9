"""Where an endpoint is reached, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bascule.core.errors import TargetUnreachable

from .endpoints import SessionEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamServer:
    """A server of a session: on `socket`, or at `host` and `port`."""

    socket: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    uid: int | None = None
    """As whom the server behind `socket` has to run. None: anybody."""
    keeps_prefix: bool = False
    """It was told its base path and wants requests with it; others get them without."""
    is_sandboxed: bool = True
    """An app's pages get an origin of their own; an app that cannot live so opts out."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Sent along with each request, in place of the client's of the same names (lower case)."""

    @property
    def label(self) -> str:
        """For whoever looks at its page, whom the hub's own directories do not concern."""
        return self.socket.stem if self.socket is not None else f"{self.host}:{self.port}"


def socket_path(run_dir: Path, endpoint: SessionEndpoint) -> Path:
    """Where a session's server has to listen for nginx to find it without being told."""
    name = f"app{endpoint.n}" if endpoint.kind == "apps" else endpoint.kind
    return run_dir / endpoint.session_id / f"{name}.sock"


class ProxyRoutes(Protocol):
    """What the proxy asks about an endpoint. The sessions of a hub answer."""

    async def owner(self, endpoint: SessionEndpoint) -> str | None:
        """Whose it is; None when there is no such endpoint. Starts nothing."""
        ...

    async def target(self, endpoint: SessionEndpoint, *, is_visit: bool) -> UpstreamServer:
        """Where it is reached; asked only for its owner. For somebody who comes just now, and not
        for a page that is open, it may start what is not running.

        Raises a `BasculeError` that says what is wrong.
        """
        ...


class MemoryRoutes:
    """Routes held in memory, set by whoever has them."""

    def __init__(self) -> None:
        self._routes: dict[SessionEndpoint, tuple[str, UpstreamServer]] = {}

    def set(self, endpoint: SessionEndpoint, target: UpstreamServer, *, owner: str) -> None:
        self._routes[endpoint] = owner, target

    def remove(self, endpoint: SessionEndpoint) -> None:
        self._routes.pop(endpoint, None)

    async def owner(self, endpoint: SessionEndpoint) -> str | None:
        found = self._routes.get(endpoint)
        return None if found is None else found[0]

    async def target(self, endpoint: SessionEndpoint, *, is_visit: bool) -> UpstreamServer:  # noqa: ARG002
        found = self._routes.get(endpoint)
        if found is None:
            raise TargetUnreachable(f"{endpoint.path} has just gone")
        return found[1]
