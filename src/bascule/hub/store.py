"""The contract for the data that a hub keeps across restarts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.sessions import SessionId, SessionState
from bascule.core.windows import WindowId

from .accounts.rows import AuditFilter, Share, UserRow
from .identity import Access, Scope, TokenRow
from .sessions.rows import AuditRow, Claim, EventRow, SessionRow

_ALL_ENTRIES: Final = AuditFilter()


class Store(Closable):
    """Tokens, users, window keys, sessions with reservations and events, and the audit log.

    Every method is one transaction: it takes effect completely or not at all, even if it is
    cancelled or the process is killed.
    """

    @abstractmethod
    async def open(self) -> None:
        """Open the store and migrate data of earlier versions.

        Raises `StorageFailed`, for example if a newer version of the hub has migrated the data.
        """

    @abstractmethod
    async def check(self) -> None:
        """Raise `StorageFailed` unless the database answers and has the schema of this version."""

    # Tokens and windows -------------------------------------------------------------------

    @abstractmethod
    async def add_token(self, row: TokenRow) -> None:
        """Store a token. Raises `InvalidRequest` if its name is taken, and `AccessDenied` if its
        owner is a user who is disabled, or whose role does not permit the scope."""

    @abstractmethod
    async def find_token(self, token_hash: str) -> TokenRow | None:
        """The row of a token, even if the token has expired."""

    @abstractmethod
    async def list_tokens(self) -> Sequence[TokenRow]: ...

    @abstractmethod
    async def count_tokens(self, *, now: float) -> Mapping[Scope, int]:
        """The number of tokens of each scope that have not expired at the Unix time `now`."""

    @abstractmethod
    async def remove_token(self, name: str, *, owner: str | None = None) -> bool:
        """Remove a token; returns whether it existed. `owner`: only if this owner has it."""

    @abstractmethod
    async def remove_token_hash(self, token_hash: str) -> bool:
        """Remove the token with this hash; returns whether it existed."""

    @abstractmethod
    async def remove_tokens_of(self, owner: str, *, keep: Collection[Scope] = ()) -> int:
        """Remove the tokens of an owner, except those of the scopes `keep`; returns their
        number."""

    @abstractmethod
    async def remove_sign_ins(self, owner: str, *, except_scope: Scope | None = None) -> int:
        """Remove the sign-ins of an owner, except those of one scope; returns their number."""

    @abstractmethod
    async def bind_window(self, window_id: WindowId, key_hash: str, owner: str) -> bool:
        """Bind the window id to a key and an owner permanently.

        False if the id is bound to another key or owner.
        """

    # Users --------------------------------------------------------------------------------

    @abstractmethod
    async def put_user(self, row: UserRow) -> None:
        """Add a user, or replace the row of the user with this name.

        Raises `InvalidRequest` if another user has the account.
        """

    @abstractmethod
    async def find_user(self, name: str) -> UserRow | None: ...

    @abstractmethod
    async def find_account(self, issuer: str, subject: str) -> UserRow | None:
        """The user with this account."""

    @abstractmethod
    async def list_users(self) -> Sequence[UserRow]: ...

    @abstractmethod
    async def has_owner(self, name: str) -> bool:
        """Whether there is a user with this name, an owner of a token, window or session, or a
        session shared with this name."""

    @abstractmethod
    async def put_share(self, session_id: SessionId, user_name: str, access: Access | None) -> None:
        """Give a user access to a session, or with None take it back."""

    @abstractmethod
    async def list_shares(self) -> Sequence[Share]: ...

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
        """Remove a session with its reservations, events, shares and tokens. Audit entries stay."""

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
        self, only: AuditFilter = _ALL_ENTRIES, *, limit: int = 1000
    ) -> Sequence[AuditRow]:
        """Audit entries, newest first."""

    @abstractmethod
    async def forget(self, *, audit_before: float, events_kept: int) -> None:
        """Delete old audit entries, and all but the newest events of each session."""
