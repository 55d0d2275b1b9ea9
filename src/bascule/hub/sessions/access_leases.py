"""Ends what a user does in a session of another owner, when the owner takes the access back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bascule.core.errors import AccessDenied
from bascule.core.sessions import SessionId
from bascule.hub.identity import Identity
from bascule.hub.leases import CURRENT_REQUEST, TokenLeases

from .rows import SessionRow
from .session_table import SessionTable

_REASON: Final = "The owner took back the access to this session"


class AccessLeases:
    """Every running request and action of users in sessions of others, by session and user."""

    def __init__(self, table: SessionTable) -> None:
        self._table = table
        self._leases = TokenLeases()  # each is ended by `end`, none by a token

    def hold(self, who: Identity, row: SessionRow) -> None:
        """End the HTTP request that the current task works for, when the access ends."""
        request = CURRENT_REQUEST.get()
        if request is not None and who.owner != row.owner:
            request.hold(self._leases, _key(row.id, who.owner), _REASON)

    @asynccontextmanager
    async def scope(self, who: Identity, session_id: SessionId) -> AsyncIterator[None]:
        """Cancel the `with` block when the access ends, then raise what `get_visible` raises."""
        try:
            async with self._leases.scope(who, key=_key(session_id, who.owner), reason=_REASON):
                yield
        except AccessDenied:
            self._table.get_visible(who, session_id)
            raise

    def end(self, session_id: SessionId, user_name: str) -> None:
        """The user has lost the access to the session."""
        self._leases.end(_key(session_id, user_name))


def _key(session_id: SessionId, user_name: str) -> str:
    return f"{session_id} {user_name}"
