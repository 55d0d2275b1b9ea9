"""Finds the servers of sessions for the proxy."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final

from bascule.core.errors import BasculeError, TargetUnreachable
from bascule.core.sessions import SessionId
from bascule.hub.identity import Identity
from bascule.hub.proxy.endpoints import Kind, SessionEndpoint
from bascule.hub.proxy.routes import ProxyRoutes, UpstreamServer, socket_path

from .service import Sessions

_VISIT_SECONDS: Final = 3600.0
_MAX_VISITS: Final = 10_000
_WHAT: Final[Mapping[Kind, str]] = {
    "vscode": "VS Code",
    "sandbox": "the action server",
    "apps": "an app",
}


class SessionRoutes(ProxyRoutes):
    """Routes requests to the sockets in a session's run directory.

    A visit resumes a paused session; a visit to its VS Code also starts VS Code.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._visits: dict[tuple[str, SessionEndpoint], float] = {}
        """When the visits of users to sessions of others were audited, the oldest first."""

    async def owner(self, endpoint: SessionEndpoint) -> str | None:
        return self._sessions.owner_of(SessionId(endpoint.session_id))

    async def other_users(self, endpoint: SessionEndpoint) -> Collection[str]:
        return self._sessions.sharing.users_with_access(SessionId(endpoint.session_id))

    async def audit_visit(self, who: Identity, endpoint: SessionEndpoint) -> None:
        """A token that goes on with requests to an endpoint gets one entry an hour."""
        session_id = SessionId(endpoint.session_id)
        if who.owner == self._sessions.owner_of(session_id):
            return
        key, now = (who.agent_id, endpoint), time.monotonic()
        if now - self._visits.get(key, float("-inf")) < _VISIT_SECONDS:
            return
        await self._sessions.audit_reading(who, session_id, _WHAT[endpoint.kind])
        self._visits.pop(key, None)
        self._visits[key] = now
        while len(self._visits) > _MAX_VISITS:
            del self._visits[next(iter(self._visits))]

    async def target(self, endpoint: SessionEndpoint, *, is_visit: bool) -> UpstreamServer:
        session_id = SessionId(endpoint.session_id)
        client, running = await self._sessions.enter(session_id, is_visit=is_visit)
        path = socket_path(self._sessions.directories.run, endpoint)
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if endpoint.kind == "vscode" and is_visit:
            try:
                await self._sessions.windows.open(session_id, client)
            except BasculeError as error:
                message = f"VS Code did not start in this session: {error.message}"
                raise TargetUnreachable(message) from error
        elif endpoint.kind == "sandbox":
            key = await self._sessions.key_of(session_id)
            headers = ((b"x-session-api-key", key.encode()),)
        keeps = endpoint.kind == "apps" and self._sessions.keeps_prefix(session_id, endpoint.n)
        return UpstreamServer(socket=path, uid=running.uid, headers=headers, keeps_prefix=keeps)
