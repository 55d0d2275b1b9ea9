"""Messages of the debug adapter protocol survive any way their stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import InvalidRequest
from bascule.wire.dap import Decoder, encode

MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), st.text() | st.integers()), max_size=4)


@given(MESSAGES, st.integers(1, 20))
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    messages: list[dict[str, str | int]], size: int
) -> None:
    stream = b"".join(encode(message) for message in messages)
    decoder = Decoder()
    pieces = [stream[spot : spot + size] for spot in range(0, len(stream), size)]

    assert [message for piece in pieces for message in decoder.feed(piece)] == messages


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 5000,
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n",
        b"Other: 1\r\n\r\n",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 1\r\n\r\n{",
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        list(Decoder().feed(data))


def test_other_lines_in_the_head_are_passed_over() -> None:
    data = b"Content-Type: x\r\ncontent-length: 2\r\n\r\n{}"

    assert list(Decoder().feed(data)) == [{}]
