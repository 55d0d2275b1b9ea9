"""Finds the servers of sessions for the proxy."""

from __future__ import annotations

from collections.abc import Collection

from bascule.core.errors import BasculeError, TargetUnreachable
from bascule.core.sessions import SessionId
from bascule.hub.proxy.endpoints import SessionEndpoint
from bascule.hub.proxy.routes import ProxyRoutes, UpstreamServer, socket_path

from .service import Sessions


class SessionRoutes(ProxyRoutes):
    """Routes requests to the sockets in a session's run directory.

    A visit resumes a paused session; a visit to its VS Code also starts VS Code.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def owner(self, endpoint: SessionEndpoint) -> str | None:
        return self._sessions.owner_of(SessionId(endpoint.session_id))

    async def other_users(self, endpoint: SessionEndpoint) -> Collection[str]:
        return self._sessions.sharing.users_with_access(SessionId(endpoint.session_id))

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
