"""Names and times of events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from bascule.core.identity import new_id, now


def test_an_id_is_a_random_uuid_as_text() -> None:
    made = new_id()

    assert str(UUID(made)) == made
    assert UUID(made).version == 4
    assert new_id() != made


def test_now_is_the_current_time_with_its_utc_offset() -> None:
    moment = datetime.fromisoformat(now())

    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)
