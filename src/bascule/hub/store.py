"""The contract for the data that a hub keeps across restarts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.sessions import SessionId, SessionState
from bascule.core.windows import WindowId

from .identity import TokenRow
from .sessions.rows import AuditRow, Claim, EventRow, SessionRow


class Store(Closable):
    """Tokens, window keys, sessions with reservations and events, and the audit log.

    Every method is one transaction: it takes effect completely or not at all, even if it is
    cancelled or the process is killed.
    """

    @abstractmethod
    async def open(self) -> None:
        """Open the store and migrate data of earlier versions.

        Raises `StorageFailed`, for example if a newer version of the hub has migrated the data.
        """

    # Tokens and windows -------------------------------------------------------------------

    @abstractmethod
    async def add_token(self, row: TokenRow) -> None:
        """Store a token. Raises `InvalidRequest` if its name is taken."""

    @abstractmethod
    async def find_token(self, token_hash: str) -> TokenRow | None:
        """The row of a token, even if the token has expired."""

    @abstractmethod
    async def list_tokens(self) -> Sequence[TokenRow]: ...

    @abstractmethod
    async def remove_token(self, name: str) -> bool:
        """Remove a token; returns whether it existed."""

    @abstractmethod
    async def bind_window(self, window_id: WindowId, key_hash: str, owner: str) -> bool:
        """Bind the window id to a key and an owner permanently.

        False if the id is bound to another key or owner.
        """

    # Sessions -----------------------------------------------------------------------------

    @abstractmethod
    async def add_session(self, row: SessionRow, claims: Sequence[Claim]) -> SessionRow:
        """Store a session with its reservations, or return the session that was stored earlier
        with the same owner and `request_key`.

        Raises `QuotaExceeded`. Concurrent calls cannot exceed a quota together.
        """

    @abstractmethod
    async def find_session(self, session_id: SessionId) -> SessionRow | None: ...

    @abstractmethod
    async def list_sessions(self, owner: str | None = None) -> Sequence[SessionRow]:
        """The sessions of one owner or of all, oldest first."""

    @abstractmethod
    async def change_session(
        self,
        session_id: SessionId,
        changes: Mapping[str, Any],
        *,
        states: Collection[SessionState] | None = None,
    ) -> SessionRow | None:
        """Change fields of a row and return the row. None if the session does not exist, or is in
        none of `states`."""

    @abstractmethod
    async def remove_session(self, session_id: SessionId) -> bool:
        """Remove a session with its reservations, events and tokens. Audit entries stay."""

    @abstractmethod
    async def reserve(self, session_id: SessionId, owner: str, claims: Sequence[Claim]) -> None:
        """Reserve all claims or none. A claim of a kind that the session already holds replaces
        the old one."""

    @abstractmethod
    async def release(self, session_id: SessionId, kinds: Collection[str]) -> None: ...

    # Events and audit log -----------------------------------------------------------------

    @abstractmethod
    async def add_event(
        self, session_id: SessionId, kind: str, data: Mapping[str, Any], *, time: float
    ) -> EventRow: ...

    @abstractmethod
    async def list_events(
        self, session_id: SessionId, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventRow]:
        """Events of a session with ids above `after`, oldest first."""

    @abstractmethod
    async def add_audit(self, row: AuditRow) -> None: ...

    @abstractmethod
    async def list_audit(
        self, *, session_id: SessionId | None = None, limit: int = 1000
    ) -> Sequence[AuditRow]:
        """Audit entries, of one session or of all, newest first."""

    @abstractmethod
    async def forget(self, *, audit_before: float, events_kept: int) -> None:
        """Delete old audit entries, and all but the newest events of each session."""
