"""Names for events: who they are and when they happened."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NewType
from uuid import uuid4

EventId = NewType("EventId", str)
"""A UUID as text. OpenHands' integers stay at its own surfaces."""


def new_id() -> EventId:
    return EventId(str(uuid4()))


def now() -> str:
    """The present moment as every event writes it: ISO 8601 with its offset."""
    return datetime.now(UTC).isoformat()
