"""The marks and what bash tells: found however reads are split, and never in anything else."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bascule.sandbox.shell.marks import (
    PROMPT,
    CommandEnd,
    find_end,
    find_mark,
    held_back,
    is_refusal,
    new_nonce,
    without_marks,
    without_prompt,
)

NONCE = b"0123456789abcdef"
START = b"\x1b]7771;" + NONCE + b";S\x07"
END = b"\x1b]7771;" + NONCE + b";E\x07"
TOLD = b"\x1b" + NONCE + b"E;3;;himBs;\x1f/bin:/usr/bin\x1f/tmp\x1f" + NONCE

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


def feed(pieces: list[bytes]) -> tuple[bytes, bool]:
    """As a shell does: emit what cannot be part of a mark, keep the rest for the next piece."""
    emitted, rest = b"", b""
    for piece in pieces:
        data = rest + piece
        mark = find_mark(data, NONCE)
        if mark is not None:
            return emitted + data[: mark.before], not mark.is_start
        keep = held_back(data, NONCE)
        emitted, rest = emitted + data[: len(data) - keep], data[len(data) - keep :]
    return emitted + rest, False


@given(near_marks, st.lists(st.integers(0, 300), max_size=20))
def test_an_end_is_found_however_the_reads_are_split(output: bytes, cuts: list[int]) -> None:
    stream = output + END + b"later"
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert feed(pieces) == (output, True)


@given(near_marks, st.integers(0, 60))
def test_nothing_is_lost_when_no_mark_comes(output: bytes, cut: int) -> None:
    assert feed([output[:cut], output[cut:]]) == (output, False)


def test_a_mark_tells_what_it_marks() -> None:
    start, end = find_mark(START, NONCE), find_mark(b"out" + END, NONCE)
    asked = find_mark(END.replace(b";E", b";F"), NONCE)
    assert start is not None
    assert start.is_start
    assert end is not None
    assert (end.before, end.after, end.is_start) == (3, 3 + len(END), False)
    assert not end.was_asked
    assert asked is not None
    assert asked.was_asked


def test_the_end_tells_status_options_path_and_directory() -> None:
    assert find_end(TOLD, NONCE) == CommandEnd(3, -1, "himBs", "/bin:/usr/bin", "/tmp")


@given(st.integers(0, len(TOLD) - 1))
def test_half_an_end_is_none(size: int) -> None:
    assert find_end(TOLD[:size], NONCE) is None


def test_a_trace_of_the_line_is_no_end() -> None:
    trace = b"+ builtin printf '\\e" + TOLD[1:].replace(b"\x1f", b"\\037") + b"' 0 himxBs\n"
    assert find_end(trace, NONCE) is None
    assert find_end(trace + TOLD, NONCE) == find_end(TOLD, NONCE)


def test_a_job_a_hook_or_a_trace_makes_a_shell_that_is_not_calm() -> None:
    def told(before: bytes, after: bytes) -> CommandEnd:
        end = find_end(TOLD.replace(before, after), NONCE)
        assert end is not None
        return end

    calm, job = told(b"", b""), told(b";3;;", b";3;4711;")
    hook, trace = told(b"himBs;", b"himBs;hook"), told(b"himBs", b"himxBs")
    assert [end.is_calm for end in (calm, job, hook, trace)] == [True, False, False, False]
    assert [end.is_marked for end in (calm, job, hook, trace)] == [False, True, True, False]


@given(st.binary())
def test_another_nonce_is_nothing(noise: bytes) -> None:
    other = new_nonce().encode()
    assert find_mark(noise + END, other) is None
    assert find_end(noise + TOLD, other) is None


def test_marks_are_taken_out_of_idle_output() -> None:
    assert without_marks(b"a" + START + b"b" + END + b"c") == b"abc"
    assert without_marks(b"a\nb" + PROMPT + b"c") == b"a\nc"


def test_a_prompt_is_what_stands_on_its_line() -> None:
    assert without_prompt(b"text\n(venv) " + PROMPT) == b"text\n"
    assert without_prompt(b"(venv) " + PROMPT) == b""
    assert without_prompt(b"text") == b"text"


def test_a_refusal_is_all_that_bash_says() -> None:
    assert is_refusal(b"bash: 255: Bad file descriptor\n")
    assert not is_refusal(b"bash: 255: Bad file descriptor\nmore\n")
    assert not is_refusal(b"")
