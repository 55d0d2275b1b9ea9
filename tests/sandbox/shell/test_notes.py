"""Notes around a command's output: word for word those of the extension's shell."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.sandbox.shell import notes
from tests.contracts.shared_vectors import load, text

_VECTORS = load("output_notes")


@pytest.mark.parametrize("case", _VECTORS["fixed"], ids=lambda case: case["note"])
def test_a_fixed_note_has_the_same_text_in_both_shells(case: dict[str, Any]) -> None:
    assert getattr(notes, case["note"].upper()) == case["text"]


@pytest.mark.parametrize("case", _VECTORS["made"], ids=lambda case: case["note"])
def test_a_note_has_the_same_text_in_both_shells(case: dict[str, Any]) -> None:
    make = left_out if case["note"] == "left_out" else getattr(notes, case["note"])
    arguments: list[Any] = [
        text(each) if isinstance(each, list) else each for each in case["arguments"]
    ]
    assert make(*arguments) == text(case["text"])


def left_out(size: int, path: str, start: int, end: int) -> str:
    return notes.left_out(size, path=path, start=start, end=end)


def test_a_shell_without_a_log_names_no_file() -> None:
    assert notes.left_out(7, path=None, start=0, end=9) == "\n[… 7 bytes left out …]\n"
