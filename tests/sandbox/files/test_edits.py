"""The rules of an edit: against the simplest model of it, and case by case as in the extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import BasculeError, EditAmbiguous, EditInvalid, EditNoMatch
from bascule.sandbox.files.edits import Edited, insert_lines, replace_once
from tests.contracts.shared_vectors import load, text

_VECTORS = load("edits")
texts = st.text("ab\n", max_size=12)


@given(texts, texts.filter(str.strip), texts)
def test_text_is_replaced_only_if_it_occurs_exactly_once(text: str, old: str, new: str) -> None:
    count = text.count(old)
    if count == 1:
        edited = replace_once(text, old, new, shown_path="f")
        assert edited.content == text.replace(old, new)
        assert edited.line == text[: text.index(old)].count("\n") + 1
    elif count > 1:
        with pytest.raises(EditAmbiguous):
            replace_once(text, old, new, shown_path="f")
    elif text.count(old.strip()) == 0:
        with pytest.raises(EditNoMatch):
            replace_once(text, old, new, shown_path="f")


@given(texts, st.integers(-1, 8), texts)
def test_inserted_lines_appear_between_existing_lines(text: str, line: int, new: str) -> None:
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
    assert edited.content.split("\n")[edited.line - 1 :][: edited.line_count] == new.split("\n")


@pytest.mark.parametrize("case", _VECTORS["replace"], ids=lambda case: case["name"])
def test_a_replacement_is_the_same_as_in_the_extension(case: dict[str, Any]) -> None:
    before, old, new = (text(case[name]) for name in ("text", "old", "new"))
    check(case, lambda: replace_once(before, old, new, shown_path="f"))


@pytest.mark.parametrize("case", _VECTORS["insert"], ids=lambda case: case["name"])
def test_an_insertion_is_the_same_as_in_the_extension(case: dict[str, Any]) -> None:
    before, new = text(case["text"]), text(case["new"])
    check(case, lambda: insert_lines(before, case["insert_line"], new))


def check(case: dict[str, Any], edit: Callable[[], Edited]) -> None:
    if "code" in case:
        with pytest.raises(BasculeError) as refused:
            edit()
        assert (refused.value.code, refused.value.message) == (case["code"], text(case["message"]))
    else:
        assert edit() == Edited(text(case["content"]), case["line"], case["lines"])
