"""Identities of callers, and the tokens that prove them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Scope = Literal["admin", "agent", "window", "session"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

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

    def may_see(self, owner: str) -> bool:
        return self.is_admin or self.owner == owner
