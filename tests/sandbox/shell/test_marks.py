"""The marks and what bash tells: found however reads are split, and never in anything else."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import CommandInvalid
from bascule.sandbox.shell.interrupts import KEY
from bascule.sandbox.shell.marks import (
    PROMPT,
    CommandEnd,
    ask_line,
    command_line,
    find_end,
    find_mark,
    find_types,
    held_back,
    is_refusal,
    new_nonce,
    unfinished_mark,
    without_marks,
    without_prompt,
)
from tests.contracts.shared_vectors import data, load, text

_VECTORS = load("shell_marks")
NONCE: bytes = _VECTORS["nonce"].encode()
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
        seen = rest + piece
        mark = find_mark(seen, NONCE)
        if mark is not None:
            return emitted + seen[: mark.before], not mark.is_start
        keep = held_back(seen, NONCE)
        emitted, rest = emitted + seen[: len(seen) - keep], seen[len(seen) - keep :]
    return emitted + rest, False


@given(near_marks, st.lists(st.integers(0, 300), max_size=20))
def test_an_end_mark_is_found_however_reads_are_split(output: bytes, cuts: list[int]) -> None:
    stream = output + END + b"later"
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert feed(pieces) == (output, True)


@given(near_marks, st.integers(0, 60))
def test_no_output_is_lost_without_a_mark(output: bytes, cut: int) -> None:
    assert feed([output[:cut], output[cut:]]) == (output, False)


@given(st.integers(0, len(TOLD) - 1))
def test_a_partial_end_mark_is_not_an_end(size: int) -> None:
    assert find_end(TOLD[:size], NONCE) is None


@given(st.binary())
def test_a_mark_with_another_nonce_is_ignored(noise: bytes) -> None:
    other = new_nonce().encode()
    assert find_mark(noise + END, other) is None
    assert find_end(noise + TOLD, other) is None


def cases(section: str) -> pytest.MarkDecorator:
    """The cases that the extension's shell passes too."""
    return pytest.mark.parametrize(
        "case", _VECTORS[section], ids=lambda case: case.get("name") or str(case)
    )


@cases("find_mark")
def test_a_mark_is_found_at_its_position(case: dict[str, Any]) -> None:
    found = find_mark(data(case["data"]), NONCE)
    assert (None if found is None else asdict(found)) == case["found"]


@cases("find_end")
def test_an_end_mark_is_parsed_with_all_its_fields(case: dict[str, Any]) -> None:
    end = find_end(data(case["said"]), NONCE)
    expected = case["end"] and CommandEnd(**{**case["end"], "path": text(case["end"]["path"])})
    assert end == expected


@cases("held_back")
def test_a_possible_mark_or_prompt_is_held_back(case: dict[str, Any]) -> None:
    assert held_back(data(case["data"]), NONCE) == case["size"]


@cases("unfinished_mark")
def test_the_length_of_an_unfinished_mark_is_measured(case: dict[str, Any]) -> None:
    assert unfinished_mark(data(case["data"])) == case["size"]


@cases("without_marks")
def test_marks_and_prompts_are_removed_from_idle_output(case: dict[str, Any]) -> None:
    assert without_marks(data(case["data"])) == data(case["left"])


@cases("without_prompt")
def test_a_prompt_is_recognised_as_a_line_of_its_own(case: dict[str, Any]) -> None:
    assert without_prompt(data(case["data"])) == data(case["left"])


@cases("is_refusal")
def test_output_that_is_only_a_bash_error_is_a_refusal(case: dict[str, Any]) -> None:
    assert is_refusal(data(case["output"])) == case["is"]


@cases("is_key")
def test_only_one_spelling_of_a_key_name_is_accepted(case: dict[str, Any]) -> None:
    assert (KEY.fullmatch(case["text"]) is not None) == case["is"]


@cases("command_line")
def test_a_command_is_sent_to_bash_as_one_line(case: dict[str, Any]) -> None:
    line = command_line(
        case["text"],
        NONCE.decode(),
        cwd=case["cwd"] or None,
        last_status=case["status"],
        options=case["options"],
        marked=case["is_marked"],
    )
    assert line.decode() == case["line"].replace("@CHANNEL@", ">&0 2>&0")


@cases("refused")
def test_a_command_that_bash_cannot_be_given_is_rejected(case: dict[str, Any]) -> None:
    with pytest.raises(CommandInvalid, match=case["message"]):
        command_line(text(case["text"]), NONCE.decode(), cwd=case["cwd"])


def test_a_question_to_bash_is_sent_as_one_line() -> None:
    expected = _VECTORS["ask_line"].replace("@CHANNEL@", ">&0 2>&0")
    assert ask_line(NONCE.decode()).decode() == expected


@given(st.integers(0, 60))
def test_the_types_of_command_names_are_parsed_completely_or_not_at_all(cut: int) -> None:
    reply = b"+ trace\n\x1b" + NONCE + b"Tfile\n\x1f\x1ffunction\n\x1f" + NONCE
    assert find_types(reply, NONCE) == ["file", "", "function"]
    assert find_types(reply[: min(cut, len(reply) - 1)], NONCE) is None
    assert find_types(reply, b"fedcba9876543210") is None
