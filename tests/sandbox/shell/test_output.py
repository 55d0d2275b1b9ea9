"""Head and tail, counted to the byte, whatever the pieces."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bascule.sandbox.shell.output import CommandOutput

pieces = st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)))


@given(pieces)
def test_without_a_limit_all_output_is_kept(data: list[bytes]) -> None:
    output = CommandOutput(0)
    for piece in data:
        output.add(piece)
    taken = output.take(final=True)
    assert taken.head == b"".join(data).decode(errors="replace")
    assert (taken.size, taken.left_out, taken.tail) == (sum(map(len, data)), 0, "")


@given(st.text(), st.lists(st.integers(0, 200)))
def test_joined_answers_give_the_whole_output(text: str, cuts: list[int]) -> None:
    whole = text.encode(errors="replace")
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    output = CommandOutput(0)
    seen = ""
    for start, end in itertools.pairwise(edges):
        output.add(whole[start:end])
        seen += output.take(final=False).head
    assert seen + output.take(final=True).head == whole.decode()


@given(st.text(), st.lists(st.integers(0, 200)), st.integers(1, 60))
def test_omitted_output_is_counted(text: str, cuts: list[int], limit: int) -> None:
    whole = text.encode(errors="replace")
    text = whole.decode()
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    output = CommandOutput(limit)
    for start, end in itertools.pairwise(edges):
        output.add(whole[start:end])
    taken = output.take(final=True)
    assert len(taken.head) + len(taken.tail) <= limit
    assert text.startswith(taken.head)
    assert text.endswith(taken.tail)
    assert taken.left_out == len(whole) - len((taken.head + taken.tail).encode())
    assert (taken.left_out > 0) == (len(text) > limit)


def test_memory_is_bounded_by_the_limit() -> None:
    output = CommandOutput(100)
    for _ in range(1000):
        output.add(b"x" * 1000)
    taken = output.take(final=True)
    assert (taken.head, taken.tail) == ("x" * 50, "x" * 50)
    assert taken.left_out == 1_000_000 - 100
