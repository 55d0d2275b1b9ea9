from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import InvalidAction
from bascule.wire.parcel import pack, unpack


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53)))
def test_a_parcel_returns_its_packed_content(content: str, extras: dict[str, object]) -> None:
    event = {"observation": "run", "content": content, "extras": extras}
    assert unpack(b"".join(pack(event))) == event


@pytest.mark.parametrize("bad", [b"", b"{}", b"[]\n", b"{\n", b"{}\n\xff"])
def test_an_invalid_parcel_is_rejected(bad: bytes) -> None:
    with pytest.raises(InvalidAction):
        unpack(bad)
