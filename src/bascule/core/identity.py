"""Ids and times of events."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import NewType

EventId = NewType("EventId", str)
"""A UUID as text. The OpenHands adapters translate to and from OpenHands' integer ids."""


def new_id() -> EventId:
    """A random UUID (version 4). Every event gets one, and this is four times faster than
    `uuid.uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return EventId(
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
    )


def now() -> str:
    """The current time in the format of event timestamps: ISO 8601 with UTC offset."""
    return datetime.now(UTC).isoformat()
