"""Rows that the hub stores about users, shared sessions and what users did."""

from __future__ import annotations

from dataclasses import dataclass

from bascule.core.sessions import SessionId
from bascule.hub.identity import Access, Role

USER_NAME_PATTERN = r"^[\w.@+-][\w.@ +-]{0,59}$"
"""Pattern of the names of users, which are also the owners of sessions, windows and tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A user who signs in with an account, or whom an admin has added."""

    name: str
    """Owner of the user's sessions, windows and tokens. It never changes."""
    role: Role
    issuer: str | None = None
    """The OpenID provider of the account. None: the user has no account."""
    subject: str | None = None
    """Id of the account at its provider, which never gives it to another person, unlike a name."""
    display_name: str = ""
    is_disabled: bool = False
    """Whether the user may not sign in and has no tokens."""
    max_sessions: int | None = None
    """Quota of the user. None: the hub's setting `max_sessions_per_owner`."""
    max_running: int | None = None
    """Quota of the user. None: the hub's setting `max_running_per_owner`."""
    created: float
    last_sign_in: float | None = None
    """Unix time, like `created`. None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A person's account at an OpenID provider, as the provider describes it."""

    issuer: str
    subject: str
    name: str
    """The person's name at the provider. The provider may give it to another person later."""
    display_name: str
    role: Role | None
    """The role that the provider's groups give. None: groups do not decide about roles, so the user
    keeps the role, or gets `new_role`."""
    new_role: Role


@dataclass(frozen=True, slots=True)
class Share:
    """Access to a session that its owner gave to another user."""

    session_id: SessionId
    user_name: str
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries of the audit log to read; None: all."""

    session_id: SessionId | None = None
    user_name: str | None = None
    verb: str | None = None
    since: float | None = None
    """Unix time of the oldest entry."""
    before: int | None = None
    """Only entries with smaller ids, to read the log in parts."""
