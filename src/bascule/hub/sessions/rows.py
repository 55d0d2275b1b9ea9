"""Rows that the hub stores about sessions: sessions, events and audit entries."""

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
    """Name of the token that created it."""
    spec: SessionSpec
    """Its `secrets` hold names only."""
    state: SessionState = "starting"
    stage: str = ""
    """The current stage of a start, for people."""
    cause: str = ""
    """Why it failed."""
    created: float
    """Unix time, as all times here."""
    updated: float
    last_active: float
    request_key: str | None = None
    """The caller's idempotency key: the same key of the same owner is the same session."""
    request_hash: str = ""
    """Hash of the request, to detect a different request under the same key."""
    is_filled: bool = False
    """Whether the workspace was filled."""
    is_doomed: bool = False
    """Whether it is being removed; the removal continues after a restart."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a session; ids increase."""

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
    session_id: SessionId
    detail: Mapping[str, Any] = field(default_factory=dict)


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
    """For people: `sessions`, `bytes of memory`."""
    quotas: tuple[Quota, ...] = ()
