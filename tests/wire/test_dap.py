"""Messages of the debug adapter protocol survive any way their stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import InvalidRequest
from bascule.wire.dap import Decoder, encode

MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), st.text() | st.integers()), max_size=4)


@given(MESSAGES, st.integers(1, 20))
def test_dap_messages_are_parsed_wherever_they_are_split(
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
def test_an_invalid_dap_message_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        list(Decoder().feed(data))


def test_other_dap_header_lines_are_ignored() -> None:
    data = b"Content-Type: x\r\ncontent-length: 2\r\n\r\n{}"

    assert list(Decoder().feed(data)) == [{}]
