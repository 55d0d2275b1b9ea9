"""What goes to an OpenHands client has the extras of its classes, no more and no less."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.core.kinds import OBSERVATIONS
from bascule.wire import reply_envelope
from tests.core.test_openhands_defaults import OBSERVATION_FIELDS

from .strategies import events


@pytest.mark.parametrize("kind", sorted(OBSERVATION_FIELDS.keys() - {"run"}))
@given(data=st.data())
@settings(max_examples=3, deadline=None)
def test_openhands_extras_match_its_classes_exactly(kind: str, data: st.DataObject) -> None:
    reply = reply_envelope({"id": 1}, data.draw(events(OBSERVATIONS[kind])))

    assert reply["extras"].keys() == OBSERVATION_FIELDS[kind].keys()
