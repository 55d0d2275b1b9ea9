"""The reverse proxy of a hub: the state that all connections share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from bascule.core.tracing import Tracing
from bascule.hub.identity import Identity
from bascule.hub.leases import TokenLeases
from bascule.hub.origins import Origins
from bascule.hub.settings import HubSettings

from . import authorize
from .access_control import AccessControl
from .addresses import HubAddresses
from .authentication import Authenticator
from .endpoints import ResolveMountedPath, is_session_path
from .exchange import Exchange
from .request import RequestHead
from .routes import ProxyRoutes
from .traffic import ProxyTraffic
from .upstream import UpstreamPool

_AUTHORIZE_PATH: Final = authorize.PATH.encode()


OnProgram = Callable[[Identity, str], Awaitable[None]]
"""Called with the sender of a request and the id of the session."""


async def _ignore_program(_who: Identity, _session_id: str) -> None: ...


class Proxy:
    """Proxies requests for endpoints of sessions to the servers of those sessions."""

    def __init__(
        self,
        settings: HubSettings,
        addresses: HubAddresses,
        *,
        authenticator: Authenticator,
        routes: ProxyRoutes,
        resolve_mounted: ResolveMountedPath = lambda _: None,
        leases: TokenLeases | None = None,
        on_program: OnProgram = _ignore_program,
        tracing: Tracing | None = None,
    ) -> None:
        """`on_program` is called before a request passes that starts a program in a sandbox."""
        self.on_program = on_program
        self.tracing = tracing
        self.leases = leases or TokenLeases()
        self.settings = settings
        self._origins = Origins(settings)
        self.access_control = AccessControl(
            settings,
            addresses,
            authenticator=authenticator,
            routes=routes,
            origins=self._origins,
            resolve_mounted=resolve_mounted,
        )
        self._resolve_mounted = resolve_mounted
        self.pool = UpstreamPool(
            connect_timeout=settings.connect_timeout, idle_timeout=settings.keep_target
        )
        self.traffic = ProxyTraffic()
        self.live: set[Exchange] = set()
        """Running exchanges, including tunnels."""
        self._addresses = addresses

    def claims(self, request: RequestHead) -> bool:
        """Whether the proxy handles the request; the ASGI app handles all others.

        The proxy also claims some requests to refuse them: a target that is not a path, a `Host`
        that two servers could read differently, and an upgrade with a body, which the ASGI side
        would read as the next request.
        """
        target = request.target
        return (
            is_session_path(target)
            or self._resolve_mounted(target) is not None
            or (not target.startswith(b"/") and target != b"*")
            or (request.is_upgrade and request.has_body)
            or not request.has_plain_host
            or (
                self._origins.session_host(request.host) is not None
                and not _is_authorization_request(target)
            )
            or (self._addresses.has_apps_origin and self._addresses.is_apps_host(request.host))
        )

    def end_session(self, session_id: str) -> None:
        """Close every connection into a session, including tunnels."""
        for exchange in tuple(self.live):
            if exchange.session_id == session_id:
                exchange.end()

    def end_sign_in(self, sign_in: bytes) -> None:
        """Close every connection of a user who signed out."""
        for exchange in tuple(self.live):
            if exchange.sign_in == sign_in:
                exchange.end()

    def close(self) -> None:
        """Close idle connections; the listener closes those in use."""
        self.pool.close()


def _is_authorization_request(target: bytes) -> bool:
    """Whether this is nginx's authorization subrequest, which has the original request's `Host`."""
    return target.partition(b"?")[0] == _AUTHORIZE_PATH
