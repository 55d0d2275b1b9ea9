"""Rows that the hub stores about sessions: sessions, events, audit entries and claims on quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bascule.core.sessions import SessionId, SessionSpec, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A stored session. It holds neither the sandbox's key nor values of secrets."""

    id: SessionId
    owner: str
    created_by: str
    """Name of the token that created the session."""
    spec: SessionSpec
    """The requested properties. Of its `secrets`, the store keeps only the names."""
    state: SessionState = "starting"
    stage: str = ""
    """The current stage of a start, as text for people."""
    cause: str = ""
    """Why the session failed; empty otherwise."""
    created: float
    """Unix time, like all times here."""
    updated: float
    last_active: float
    request_key: str | None = None
    """The idempotency key: a request with the same key and owner returns the same session."""
    request_hash: str = ""
    """Hash of the request, to detect a different request under the same key."""
    is_filled: bool = False
    """Whether the workspace was cloned, unpacked or copied, or needs none of that."""
    is_being_removed: bool = False
    """Whether the session is being removed; the removal continues after a restart of the hub."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a session. Ids increase; id 0 is an event that is not stored."""

    id: int
    session_id: SessionId
    time: float
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """An audit entry: who did what."""

    time: float
    who: str
    """Name of the token; `hub` for actions of the hub itself."""
    owner: str
    verb: str
    """What was done, such as `create`."""
    session_id: SessionId
    """Empty: the entry is about no session."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    user_name: str = ""
    """The user who did it: the owner of the token. Empty: the hub itself, a caller who is not
    signed in, or an entry that an earlier version wrote."""
    id: int = field(default=0, compare=False)
    """Increases with each entry; 0 if the entry is not stored yet."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit, and the setting that raises it."""

    setting: str
    limit: int
    per_owner: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """An amount of a limited resource that a session reserves."""

    kind: str
    amount: int
    unit: str
    """Unit for error messages, such as `sessions` or `bytes of memory`."""
    quotas: tuple[Quota, ...] = ()
