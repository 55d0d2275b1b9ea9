"""The identity that a token stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Scope = Literal["admin", "agent", "window", "session"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

DEFAULT_OWNER = "admin"
"""Whose the windows and tokens are on a hub that one person uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A stored token. Only its hash is stored, so a reader of the store learns no token."""

    hash: str
    name: str
    """What people call its holder; stamped on all it does."""
    owner: str
    scope: Scope
    session_id: str | None = None
    """For scope session: the one it is good for."""
    expires: float | None = None
    """Unix time. None: it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity behind a request."""

    name: str
    owner: str
    scope: Scope
    session_id: str | None = None
    token_id: str = ""
    """Tells this token from every other, also from one that gets the same name later; no secret.
    Empty: it came by no token of its own."""
    token_hash: str = field(default="", compare=False, repr=False)
    """Of the token that was shown; empty for whoever needs none, as a session at its socket."""

    @property
    def agent_id(self) -> str:
        """The id by which a window distinguishes agents.

        Callers without a token are the hub itself.
        """
        return self.token_id or f"hub:{self.scope}:{self.owner}:{self.name}"

    @property
    def is_admin(self) -> bool:
        return self.scope == "admin"

    def may_see(self, owner: str) -> bool:
        return self.is_admin or self.owner == owner
