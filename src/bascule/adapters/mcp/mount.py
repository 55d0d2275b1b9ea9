"""MCP on a hub: streamable HTTP at /mcp, and at /mcp/{session} for one session alone.

With `/mcp?window=ID` a client starts in that window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from bascule.core.contracts import Runtime
from bascule.core.errors import AccessDenied, BasculeError, HubUnreachable, NoSuchSession
from bascule.core.sessions import SessionId
from bascule.hub import Hub, Identity
from bascule.hub.mounts import Mount, identity_of
from bascule.hub.replies import ERRORS
from bascule.serving.asgi import Receive, Scope, Send

from ._sessions import ClientSessions, SessionSummary
from ._targets import ClientTarget, HubTargets, SingleTarget, ToolTargets

if TYPE_CHECKING:
    from ._http import McpHttpServer

_SCOPES: Final = ("agent", "admin")


class McpMount(Mount):
    """Serves all MCP clients of a hub, each with the rights of its token.

    The MCP library is imported for the first client: the import takes most of a second, which a
    hub without MCP clients should not spend.
    """

    prefix = "/mcp"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._server: McpHttpServer | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity = identity_of(scope)
        try:
            target = _target_of(scope["path"].removeprefix(self.prefix), scope["query_string"])
            self._ensure_may(identity, target.session)
            server = await self._ready()
        except BasculeError as error:
            status = 404 if isinstance(error, NoSuchSession) else None
            await ERRORS.send(scope, send, error, status)
            return
        await server.answer(scope, receive, send, principal=(identity, target))

    async def aclose(self) -> None:
        self._closed = True
        if self._server is not None:
            await self._server.aclose()

    def targets(self, identity: Identity, target: ClientTarget) -> ToolTargets:
        """The targets for a client: only the session in its URL, or else the windows and sessions
        that its token may use."""
        sessions = _HubSessions(self._hub, identity)
        if target.session:
            return SingleTarget(partial(sessions.open, target.session))
        offered = sessions if self._hub.sessions.are_available else None
        link = partial(self._hub.windows, identity)
        return HubTargets(link, sessions=offered, window=target.window)

    def _ensure_may(self, identity: Identity, session: str) -> None:
        is_its_own = identity.scope == "session" and session == identity.session_id
        if identity.scope not in _SCOPES and not is_its_own:
            raise AccessDenied(
                f"This call needs a token of scope agent, not one of scope {identity.scope}"
            )
        if session:
            self._hub.sessions.get(identity, SessionId(session))

    async def _ready(self) -> McpHttpServer:
        async with self._lock:
            if self._closed:
                raise HubUnreachable("The hub is stopping")
            if self._server is None:
                # In a thread: the import must not block the hub's other requests.
                http = await asyncio.to_thread(import_module, "._http", __package__)
                server: McpHttpServer = http.McpHttpServer(self.targets)
                await server.start()
                self._server = server
            return self._server


class _HubSessions(ClientSessions):
    """The sessions of `hub` that `identity` may use."""

    def __init__(self, hub: Hub, identity: Identity) -> None:
        self._hub = hub
        self._identity = identity

    async def list(self) -> Sequence[SessionSummary]:
        rows = self._hub.sessions.list(self._identity)
        return [SessionSummary(id=row.id, name=row.spec.name, state=row.state) for row in rows]

    async def open(self, session_id: str) -> Runtime:
        runtime = self._hub.session(self._identity, session_id)
        await runtime.connect()
        return runtime


def _target_of(rest: str, query: bytes) -> ClientTarget:
    session = rest.strip("/")
    if "/" in session:
        raise NoSuchSession(f"There is no session {session!r}", id=session)
    windows = parse_qs(query.decode("latin-1")).get("window", [""])
    return ClientTarget(session, windows[0])
