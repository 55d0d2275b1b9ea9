"""Identities of callers, and the tokens that prove them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

Scope = Literal["admin", "member", "viewer", "agent", "window", "session"]
"""What a token may do. `admin`, `member` and `viewer` are also the roles of users."""
SCOPES: tuple[Scope, ...] = get_args(Scope)

Role = Literal["admin", "member", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Roles of users, the most powerful first."""

Access = Literal["view", "act", "own"]
"""Access to a session: to see its state and timeline, to use it, or to remove and share it too."""
SHARED_ACCESS: tuple[Access, ...] = ("view", "act")
"""The kinds of access that an owner can give to another user."""
_ORDER: Final[tuple[Access, ...]] = get_args(Access)

_ALLOWED_SCOPES: Final[Mapping[Role, frozenset[Scope]]] = {
    "admin": frozenset(SCOPES),
    "member": frozenset({"member", "viewer", "agent", "window", "session"}),
    "viewer": frozenset({"viewer"}),
}


def scopes_of(role: Role) -> frozenset[Scope]:
    """The scopes that the tokens of a user with this role may have."""
    return _ALLOWED_SCOPES[role]


def includes(access: Access, needed: Access) -> bool:
    """Whether `access` permits what needs the access `needed`."""
    return _ORDER.index(access) >= _ORDER.index(needed)


DEFAULT_OWNER = "admin"
"""Owner of all windows and tokens on a hub that one person uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A stored token. Only its hash is stored, so a reader of the store learns no token."""

    hash: str
    name: str
    """Name of the token for people, recorded with every action of its bearer."""
    owner: str
    scope: Scope
    session_id: str | None = None
    """For scope `session`: the only session that the token gives access to."""
    expires: float | None = None
    """Unix time. None: never."""
    is_sign_in: bool = False
    """Whether the token stands for a user's sign-in with an account. Nobody knows its secret: the
    browser has a cookie with the token's hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity behind a request."""

    name: str
    owner: str
    scope: Scope
    session_id: str | None = None
    token_id: str = ""
    """Unique id of the token, not secret. A later token with the same name has another id.
    Empty: no token was used."""
    token_hash: str = field(default="", compare=False, repr=False)
    """Hash of the token that was used. Empty if none was needed, as at the socket of a session."""

    @property
    def agent_id(self) -> str:
        """The id by which a window distinguishes agents.

        For callers without a token, the hub makes up an id from their other fields.
        """
        return self.token_id or f"hub:{self.scope}:{self.owner}:{self.name}"

    @property
    def is_admin(self) -> bool:
        return self.scope == "admin"

    @property
    def is_person(self) -> bool:
        """Whether a person may answer questions and review changes with this token. Agents and
        windows may not."""
        return self.scope in ("admin", "member")

    def may_see(self, owner: str) -> bool:
        return self.is_admin or self.owner == owner
