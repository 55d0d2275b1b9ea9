"""How the proxy finds its way into sessions."""

from __future__ import annotations

from bascule.core.errors import BasculeError, TargetUnreachable
from bascule.core.sessions import SessionId
from bascule.hub.proxy.endpoints import Place
from bascule.hub.proxy.routes import Routes, Target, socket_path

from .service import Sessions


class SessionRoutes(Routes):
    """A session's servers, at the sockets in its directory. Visitors resume a paused session."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def owner(self, place: Place) -> str | None:
        return self._sessions.owner_of(SessionId(place.session_id))

    async def target(self, place: Place, *, is_visit: bool) -> Target:
        session_id = SessionId(place.session_id)
        client, running = await self._sessions.enter(session_id, is_visit=is_visit)
        path = socket_path(self._sessions.directories.run, place)
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if place.kind == "vscode" and is_visit:
            try:
                await self._sessions.windows.open(session_id, client)
            except BasculeError as error:
                what = f"VS Code did not start in this session: {error.message}"
                raise TargetUnreachable(what) from error
        elif place.kind == "sandbox":
            key = await self._sessions.key_of(session_id)
            headers = ((b"x-session-api-key", key.encode()),)
        keeps = place.kind == "apps" and self._sessions.keeps_prefix(session_id, place.n)
        return Target(socket=path, uid=running.uid, headers=headers, keeps_prefix=keeps)
