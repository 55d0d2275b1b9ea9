"""Sharing a session: which other users may see or use it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from bascule.core.errors import InvalidRequest
from bascule.core.sessions import SessionId
from bascule.hub.identity import Access, Identity

from .session_table import SessionTable


class SessionSharing:
    """Gives users access to sessions of others. Only the owner and admins may do this."""

    def __init__(self, table: SessionTable, on_unshared: Callable[[SessionId, str], None]) -> None:
        """`on_unshared` is called with a session and a user who may not use it any more."""
        self._table = table
        self._on_unshared = on_unshared

    def of(self, who: Identity, session_id: SessionId) -> Mapping[str, Access]:
        """The access of users other than the owner, by user."""
        self._table.get_visible(who, session_id, needs="own")
        return self._table.shares(session_id)

    async def change(
        self, who: Identity, session_id: SessionId, user_name: str, access: Access | None
    ) -> None:
        """Give a user access to a session, or with None take it back.

        Taking access back ends the user's requests, actions and programs in the session. It closes
        all connections into the session; those of users who still have access reconnect.
        """
        row = self._table.get_visible(who, session_id, needs="own")
        if user_name == row.owner:
            raise InvalidRequest(f"{user_name} owns this session already", field="user_name")
        before = self._table.shares(session_id).get(user_name)
        verb = "unshare" if access is None else "share"
        await self._table.audit(who, row, verb, user=user_name, access=access or before)
        await self._table.share(session_id, user_name, access)
        if before == "act" and access != "act":
            self._on_unshared(session_id, user_name)

    def users_with_access(self, session_id: SessionId) -> Collection[str]:
        """The users other than the owner who may use the session."""
        shares = self._table.shares(session_id)
        return [name for name, access in shares.items() if access == "act"]
