"""Writes the audit log: which user did what."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from bascule.core.sessions import SessionId
from bascule.hub.identity import Identity
from bascule.hub.sessions.rows import AuditRow
from bascule.hub.store import Store

_MAX_ANONYMOUS: Final = 60
"""Maximum entries per minute about callers who are not signed in. More are not recorded: otherwise
anybody could fill the database."""
_MINUTE: Final = 60.0


class AuditLog:
    """Adds entries to the audit log in the hub's database."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._anonymous: deque[float] = deque(maxlen=_MAX_ANONYMOUS)
        """Times of the newest entries about callers who are not signed in."""

    async def write(
        self,
        who: Identity | None,
        verb: str,
        *,
        owner: str = "",
        session_id: str = "",
        **detail: object,
    ) -> None:
        """Add an entry. `who` is None for callers who are not signed in.

        `owner` is the owner of the changed thing; by default the caller.
        """
        if who is None and not self._may_record_anonymous():
            return
        await self._store.add_audit(
            AuditRow(
                time=self._clock(),
                who="" if who is None else who.name,
                owner=owner or ("" if who is None else who.owner),
                verb=verb,
                session_id=SessionId(session_id),
                detail=detail,
                user_name="" if who is None else who.owner,
            )
        )

    def _may_record_anonymous(self) -> bool:
        now = self._clock()
        if len(self._anonymous) == _MAX_ANONYMOUS and now - self._anonymous[0] < _MINUTE:
            return False
        self._anonymous.append(now)
        return True
