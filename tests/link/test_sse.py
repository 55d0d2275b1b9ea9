from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import MessageTooLarge
from bascule.link.sse import EventReader, ServerEvent

TEXT = (
    b": a comment\n\nevent: output\nid: 7\ndata: {}\n\n"
    b"data: one\r\ndata: two\r\n\r\nevent: none\n\n"
)
EVENTS = [ServerEvent("output", b"{}", "7"), ServerEvent("message", b"one\ntwo", "7")]


@given(st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_sse_events_are_parsed_wherever_chunks_are_split(cuts: list[int]) -> None:
    reader = EventReader()
    edges = [0, *sorted(cuts), len(TEXT)]
    chunks = [TEXT[a:b] for a, b in pairwise(edges)]

    assert [event for chunk in chunks for event in reader.feed(chunk)] == EVENTS


def test_an_incomplete_sse_event_is_buffered() -> None:
    reader = EventReader()
    assert list(reader.feed(b"data: half\n")) == []
    assert list(reader.feed(b"\n")) == [ServerEvent("message", b"half")]


def test_an_sse_event_with_too_many_lines_is_rejected() -> None:
    with pytest.raises(MessageTooLarge):
        list(EventReader().feed(b"data:\n" * 20_000))


def test_sse_events_are_bounded_by_default() -> None:
    reader = EventReader()
    for _ in range(64):
        list(reader.feed(b"x" * (1 << 20)))
    with pytest.raises(MessageTooLarge):
        list(reader.feed(b"x"))
