"""Output on its way while a command runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.contracts import OutputProgress
from bascule.core.errors import InvalidAction
from bascule.wire import decode_progress, encode_progress, from_json, to_json


@given(st.builds(OutputProgress, st.text(), st.integers(min_value=0), st.binary()))
def test_every_byte_comes_back(progress: OutputProgress) -> None:
    assert decode_progress(from_json(to_json(encode_progress(progress)))) == progress


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"offset": 0, "data": ""}, "progress: `shell` is missing"),
        (
            {"shell": "", "offset": "0", "data": ""},
            "progress: `offset` must be an integer, not '0'",
        ),
        ({"shell": "", "offset": 0, "data": "a"}, "progress: `data` must be Base64, not 'a'"),
        (
            {"shell": "", "offset": 0, "data": "aG*kk"},
            "progress: `data` must be Base64, not 'aG*kk'",
        ),
        ({"shell": "", "offset": 0, "data": "é==="}, "progress: `data` must be Base64, not 'é==='"),
    ],
)
def test_a_wrong_frame_is_refused_with_the_reason(frame: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        decode_progress(frame)

    assert caught.value.message == message
