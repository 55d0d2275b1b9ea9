"""The rules of an edit, against the simplest model of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import EditAmbiguous, EditInvalid, EditNoMatch
from bascule.sandbox.files.edits import insert_lines, replace_once

texts = st.text("ab\n", max_size=12)


@given(texts, texts.filter(str.strip), texts)
def test_a_text_that_occurs_once_is_replaced_and_any_other_is_not(
    text: str, old: str, new: str
) -> None:
    count = text.count(old)
    if count == 1:
        edited = replace_once(text, old, new, shown="f")
        assert edited.content == text.replace(old, new)
        assert edited.line == text[: text.index(old)].count("\n") + 1
    elif count > 1:
        with pytest.raises(EditAmbiguous):
            replace_once(text, old, new, shown="f")
    elif text.count(old.strip()) == 0:
        with pytest.raises(EditNoMatch):
            replace_once(text, old, new, shown="f")


@given(texts, st.integers(-1, 8), texts)
def test_inserted_lines_stand_between_those_that_were_there(text: str, line: int, new: str) -> None:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= line <= len(lines):
        with pytest.raises(EditInvalid, match="range of allowed values"):
            insert_lines(text, line, new)
        return

    edited = insert_lines(text, line, new)

    expected = "\n".join([*lines[:line], *new.split("\n"), *lines[line:]])
    assert edited.content in (expected, expected + "\n")
    assert edited.content.endswith("\n") or (text and not text.endswith("\n"))
    assert edited.content.split("\n")[edited.line - 1 :][: edited.lines] == new.split("\n")


def test_the_lines_of_every_occurrence_are_named() -> None:
    with pytest.raises(EditAmbiguous, match=r"old_str `a` in lines \[1, 3\]\. Please"):
        replace_once("a a\nb\na\n", "a", "c", shown="f")
    with pytest.raises(EditAmbiguous, match=r"old_str `` in lines \[1, 2, 3, 4\]\. Please"):
        replace_once("1\n2\n3\n", "", "c", shown="f")


def test_a_long_list_of_lines_is_cut() -> None:
    with pytest.raises(EditAmbiguous, match=r"\[1, 2, .*, 100, …\]"):
        replace_once("a\n" * 1000, "a", "c", shown="f")


def test_an_empty_text_takes_an_empty_one_once() -> None:
    assert replace_once("", "", "new", shown="f").content == "new"


def test_white_space_around_is_looked_past_when_the_text_is_not_found_as_given() -> None:
    assert replace_once("  x = 1\n", "\nx = 1  ", "\ny = 2  ", shown="f").content == "  y = 2\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\nb\n", "a\r\nb", "c\r\nd", "c\nd\n"),
        ("a\r\nb\nc\n", "a\nb", "x\ny", "x\r\ny\nc\n"),
        ("a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n"),
    ],
)
def test_line_ends_that_differ_are_looked_past(
    text: str, old: str, new: str, expected: str
) -> None:
    assert replace_once(text, old, new, shown="f").content == expected


def test_a_long_text_is_not_repeated_in_full() -> None:
    with pytest.raises(EditNoMatch) as refused:
        replace_once("a", "b" * 100_000, "c", shown="f")

    assert len(refused.value.message) < 1200
