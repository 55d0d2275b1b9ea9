"""The marks: found wherever reads are split, and never in anything but a mark."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bascule.sandbox.shell.marks import (
    PROMPT,
    End,
    find_mark,
    held_back,
    new_nonce,
    without_marks,
    without_prompt,
)

NONCE = b"0123456789abcdef"
START = b"\x1b]7771;" + NONCE + b";S\x07"
END = b"\x1b]7771;" + NONCE + b";E;3;;himBs\x1f/bin:/usr/bin\x1f/tmp\x1f" + NONCE + b"\x07"

OTHER_START, OTHER_END = (mark.replace(NONCE, b"fedcba9876543210") for mark in (START, END))

near_marks = st.lists(
    st.one_of(
        st.binary(max_size=8),
        st.sampled_from([b"\x1b", b"\x1b]7771;", NONCE, PROMPT, b"\x07", b"\x1f", b"\n"]),
        st.sampled_from([OTHER_START, OTHER_END, OTHER_END[:-1], OTHER_END[5:], END[:20]]),
    ),
    max_size=12,
).map(b"".join)
"""All that is like a mark and is none; the nonce of a running command is in no output."""


def feed(pieces: list[bytes]) -> tuple[bytes, End | None]:
    """As a shell does: emit what cannot be part of a mark, keep the rest for the next piece."""
    emitted, rest = b"", b""
    for piece in pieces:
        data = rest + piece
        mark = find_mark(data, NONCE)
        if mark is not None:
            return emitted + data[: mark.before], mark.end
        keep = held_back(data, NONCE)
        emitted, rest = emitted + data[: len(data) - keep], data[len(data) - keep :]
    return emitted + rest, None


@given(near_marks, st.lists(st.integers(0, 300), max_size=20))
def test_an_end_is_found_however_the_reads_are_split(output: bytes, cuts: list[int]) -> None:
    stream = output + END + b"later"
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    shown, end = feed(pieces)
    assert (shown, end) == (output, End(3, -1, "himBs", "/bin:/usr/bin", "/tmp"))


@given(near_marks, st.integers(0, 60))
def test_nothing_is_lost_when_no_mark_comes(output: bytes, cut: int) -> None:
    assert feed([output[:cut], output[cut:]]) == (output, None)


def test_the_end_tells_status_options_path_and_directory() -> None:
    mark = find_mark(b"out" + END, NONCE)
    assert mark is not None
    assert mark.end == End(3, -1, "himBs", "/bin:/usr/bin", "/tmp")
    assert (mark.before, mark.after, mark.at_prompt) == (3, 3 + len(END), False)


def test_a_start_mark_is_not_an_end() -> None:
    mark = find_mark(START, NONCE)
    assert mark is not None
    assert mark.end is None


@given(st.binary())
def test_another_nonce_is_nothing(noise: bytes) -> None:
    assert find_mark(noise + END, new_nonce().encode()) is None


def test_marks_are_taken_out_of_idle_output() -> None:
    assert without_marks(b"a" + START + b"b" + END + PROMPT + b"c") == b"abc"


def test_a_prompt_is_what_stands_on_its_line() -> None:
    assert without_prompt(b"text\n(venv) " + PROMPT) == b"text\n"
    assert without_prompt(b"(venv) " + PROMPT) == b""
    assert without_prompt(b"text") == b"text"
