"""The session table: all session rows in memory, with every change stored and published.

Only one hub writes the rows, so memory and store agree, and reading needs no query.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bascule.core.broadcaster import Broadcaster
from bascule.core.errors import AccessDenied, NoSuchSession
from bascule.core.sessions import SessionId, SessionSpec, SessionState
from bascule.hub.changes import HubChanges
from bascule.hub.identity import Access, Identity, includes
from bascule.hub.store import Store

from .masking import Mask
from .rows import AuditRow, Claim, EventRow, SessionRow
from .states import AT_REST, PREDECESSORS, invalid_state

logger = logging.getLogger(__name__)


class SessionTable:
    """The rows of all sessions, and the only code that changes their state."""

    def __init__(
        self,
        store: Store,
        events: Broadcaster[EventRow],
        clock: Callable[[], float],
        changes: HubChanges,
        *,
        without_paths: Callable[[str], str] = str,
    ) -> None:
        """`without_paths` removes the hub's own paths from the failure cause that owners see."""
        self._without_paths = without_paths
        self._store = store
        self._changes = changes
        self._events = events
        self._clock = clock
        self._rows: dict[SessionId, SessionRow] = {}
        self._masks: dict[SessionId, Mask] = {}
        self._shares: defaultdict[SessionId, dict[str, Access]] = defaultdict(dict)
        """Access of users other than the owner, by session and user."""

    async def open(self) -> None:
        self._rows = {row.id: row for row in await self._store.list_sessions()}
        for share in await self._store.list_shares():
            self._shares[share.session_id][share.user_name] = share.access

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._rows

    def all(self) -> Sequence[SessionRow]:
        return list(self._rows.values())

    def find(self, session_id: SessionId) -> SessionRow | None:
        """The session; None if it does not exist."""
        return self._rows.get(session_id)

    def get(self, session_id: SessionId) -> SessionRow:
        """The session. Raises `NoSuchSession`."""
        row = self._rows.get(session_id)
        if row is None:
            raise NoSuchSession(f"There is no session {session_id}")
        return row

    def access_of(self, identity: Identity, row: SessionRow) -> Access | None:
        """The access of an identity to a session; None if it may not see the session."""
        if identity.scope == "window" or (
            identity.scope == "session" and identity.session_id != row.id
        ):
            return None
        access = self._shares.get(row.id, {}).get(identity.owner)
        if identity.may_see(row.owner):
            access = "own"
        if access is not None and identity.scope == "viewer":
            return "view"
        return access

    def get_visible(
        self, identity: Identity, session_id: SessionId, *, needs: Access = "act"
    ) -> SessionRow:
        """The session, if `identity` has the access `needs`.

        Raises `NoSuchSession` if it may not see the session, and `AccessDenied` if it may see it
        with less access.
        """
        row = self.get(session_id)
        access = self.access_of(identity, row)
        if access is None:
            raise NoSuchSession(f"There is no session {session_id}")
        if not includes(access, needs):
            allowed = "see this session" if access == "view" else "see and use this session"
            raise AccessDenied(f"You may only {allowed}; ask its owner, {row.owner}")
        return row

    def shares(self, session_id: SessionId) -> Mapping[str, Access]:
        """The access of users other than the owner, by user."""
        return self._shares.get(session_id, {})

    async def share(self, session_id: SessionId, user_name: str, access: Access | None) -> None:
        """Give a user access to a session, or with None take it back."""
        await self._store.put_share(session_id, user_name, access)
        if access is None:
            self._shares[session_id].pop(user_name, None)
        else:
            self._shares[session_id][user_name] = access
        self._changes.publish("session", session_id)

    async def add(self, row: SessionRow, claims: Sequence[Claim]) -> tuple[SessionRow, bool]:
        """Store a row.

        Returns the stored row and whether it is new: a repeated request key returns the earlier
        session.
        """
        stored = await self._store.add_session(row, claims)
        is_new = stored.id == row.id
        if is_new:
            await self.publish_event(stored.id, "state", {"state": stored.state})
            # Added last, and the caller starts the session without an `await` in between. So other
            # tasks see only started sessions in the table.
            self._rows[stored.id] = stored
            self._changes.publish("session", stored.id)
        return stored, is_new

    async def change_state(
        self, session_id: SessionId, state: SessionState, *, verb: str = "", cause: str = ""
    ) -> SessionRow:
        """Change a session's state; the only method that does.

        Raises `InvalidState` for a forbidden transition.
        """
        if cause:
            logger.info(
                "session %s is %s: %s", session_id, state, self.mask(session_id).text(cause)
            )
        cause = self.mask(session_id).text(self._without_paths(cause))
        now = self._clock()
        changes: dict[str, Any] = {"state": state, "cause": cause, "stage": "", "updated": now}
        if state in ("starting", "ready"):
            changes["last_active"] = now
        row = await self._store.change_session(session_id, changes, states=PREDECESSORS[state])
        if row is None:
            raise invalid_state(self.get(session_id).state, verb or f"become {state}")
        self._rows[session_id] = row
        self._changes.publish("session", session_id)
        data = {"state": state} | ({"cause": cause} if cause else {})
        await self.publish_event(session_id, "state", data)
        return row

    async def change(self, session_id: SessionId, **changes: Any) -> None:
        row = await self._store.change_session(session_id, changes)
        if row is not None:
            self._rows[session_id] = row
            self._changes.publish("session", session_id)

    async def change_spec(self, session_id: SessionId, spec: SessionSpec) -> None:
        """Change the spec of a stopped or failed session; a running sandbox keeps its spec."""
        row = await self._store.change_session(session_id, {"spec": spec}, states=AT_REST)
        if row is None:
            raise invalid_state(self.get(session_id).state, "be changed")
        self._rows[session_id] = row
        self._changes.publish("session", session_id)

    async def set_stage(self, session_id: SessionId, stage: str) -> None:
        await self.change(session_id, stage=stage)
        await self.publish_event(session_id, "stage", {"stage": stage})

    async def remove(self, session_id: SessionId) -> None:
        await self._store.remove_session(session_id)
        self._rows.pop(session_id, None)
        self._masks.pop(session_id, None)
        self._shares.pop(session_id, None)
        removed = EventRow(0, session_id, self._clock(), "removed", {})
        self._events.publish(removed, topic=session_id)
        self._events.end(session_id)
        self._changes.publish("session", session_id)

    async def publish_event(
        self, session_id: SessionId, kind: str, data: Mapping[str, Any]
    ) -> None:
        masked = self.mask(session_id).value(data)
        if kind.startswith("port."):
            self._changes.publish("session", session_id)
        event = await self._store.add_event(session_id, kind, masked, time=self._clock())
        self._events.publish(event, topic=session_id)

    async def audit(
        self, who: Identity | None, row: SessionRow, verb: str, **detail: object
    ) -> None:
        """Write an audit entry. `who` is None for actions of the hub itself."""
        name = "hub" if who is None else who.name
        masked = self.mask(row.id).value(detail)
        await self._store.add_audit(
            AuditRow(
                time=self._clock(),
                who=name,
                owner=row.owner,
                verb=verb,
                session_id=row.id,
                detail=masked,
                user_name="" if who is None else who.owner,
            )
        )

    def set_mask(self, session_id: SessionId, mask: Mask) -> None:
        """Mask these secrets in everything recorded about the session from now on."""
        self._masks[session_id] = mask

    def drop_mask(self, session_id: SessionId) -> None:
        """Forget the mask of a session whose creation failed."""
        self._masks.pop(session_id, None)

    def mask(self, session_id: SessionId) -> Mask:
        return self._masks.get(session_id) or Mask(())
